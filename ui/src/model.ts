/** What the server sends, and the state that the page keeps of it. */

export type Amount = [used: number, total: number];

export interface NodeRow {
  name: string;
  labels: Record<string, string>;
  cpu: Amount;
  memory: Amount;
  pods: Amount;
  extended?: Record<string, Amount>;
  cordoned?: boolean;
  notReady?: boolean;
  taints?: string[];
}

export interface PodRow {
  key: string;
  node: string;
  phase: string;
  cpu: number;
  memory: number;
  priority: number;
  created: string;
  extended?: Record<string, number>;
  leaving?: boolean;
  owner?: string;
  reason?: string;
}

export interface Decision {
  number: number;
  at: number;
  pod: string;
  what: string;
  node?: string;
  reason?: string;
}

export interface Counts {
  nodes: number;
  pods: number;
  placed: number;
  waiting: number;
}

export interface Frame {
  all?: boolean;
  at: number;
  title?: string;
  writable?: boolean;
  counts: Counts;
  nodes?: NodeRow[];
  gone?: string[];
  waiting?: PodRow[];
  decisions: Decision[];
  totals: { placed: number; failed: number; preempted: number };
  queue?: { active: number; backoff: number; unschedulable: number };
}

export interface Rejection {
  plugin: string;
  reason: string;
  asked: string;
  available: string;
  detail: string;
}

export interface Group {
  count: number;
  example: string;
  rejections: Rejection[];
  nodes: string[];
}

export interface Suggestion {
  change: string;
  verified: boolean;
  node: string;
  kind: string;
  command: string;
  edits: unknown[];
}

export interface Explanation {
  pod: string;
  verdict: string;
  summary: string;
  node: string;
  current_node: string;
  nodes: number;
  feasible: number;
  message: string;
  groups: Group[];
  suggestions: Suggestion[];
  preemption: { possible: boolean; node: string; victims: string[]; message: string } | null;
  scores: { node: string; total: number; plugins: { plugin: string; score: number; weight: number; points: number }[] }[];
}

const KEPT_DECISIONS = 10_000;
const KEPT_SAMPLES = 600;

export interface Sample {
  at: number;
  placed: number;
  waiting: number;
  rate: number;
}

/** The picture of the cluster, brought up to date frame by frame. */
export class ClusterState {
  title = "";
  writable = false;
  counts: Counts = { nodes: 0, pods: 0, placed: 0, waiting: 0 };
  nodes = new Map<string, NodeRow>();
  waiting: PodRow[] = [];
  decisions: Decision[] = [];
  totals = { placed: 0, failed: 0, preempted: 0 };
  queue: Frame["queue"];
  samples: Sample[] = [];
  version = 0;
  isConnected = false;

  take(frame: Frame): void {
    if (frame.all) {
      this.nodes.clear();
      this.title = frame.title ?? "";
      this.writable = frame.writable ?? false;
      this.samples = [];
    }
    for (const row of frame.nodes ?? []) this.nodes.set(row.name, row);
    for (const name of frame.gone ?? []) this.nodes.delete(name);
    if (frame.waiting) this.waiting = frame.waiting;
    this.counts = frame.counts;
    this.queue = frame.queue;
    this.decisions.push(...frame.decisions);
    if (this.decisions.length > KEPT_DECISIONS) {
      this.decisions.splice(0, this.decisions.length - KEPT_DECISIONS);
    }
    this.sample(frame);
    this.totals = frame.totals;
    this.version += 1;
  }

  private sample(frame: Frame): void {
    const last = this.samples[this.samples.length - 1];
    const seconds = last ? Math.max((frame.at - last.at) / 1000, 0.001) : 1;
    const rate = last ? (frame.totals.placed - this.totals.placed) / seconds : 0;
    if (last && frame.at - last.at < 500) return;
    this.samples.push({
      at: frame.at,
      placed: frame.counts.placed,
      waiting: frame.counts.waiting,
      rate: Math.max(rate, 0),
    });
    if (this.samples.length > KEPT_SAMPLES) this.samples.shift();
  }
}

/** How full a node is in a resource, 0 to 1; null if it has none of it. */
export function fullness(row: NodeRow, resource: string): number | null {
  const amount =
    resource === "cpu" || resource === "memory" || resource === "pods"
      ? row[resource]
      : row.extended?.[resource];
  if (!amount || amount[1] <= 0) return null;
  return Math.min(amount[0] / amount[1], 1);
}

/** Nodes by the value of a label, groups and nodes in order of name. */
export function grouped(nodes: Iterable<NodeRow>, label: string): [string, NodeRow[]][] {
  const groups = new Map<string, NodeRow[]>();
  for (const row of nodes) {
    const key = label ? (row.labels[label] ?? "(none)") : "all nodes";
    const members = groups.get(key);
    if (members) members.push(row);
    else groups.set(key, [row]);
  }
  const collator = new Intl.Collator("en", { numeric: true });
  for (const members of groups.values()) members.sort((a, b) => collator.compare(a.name, b.name));
  return [...groups].sort((a, b) => collator.compare(a[0], b[0]));
}

/** Label keys that divide nodes into a manageable number of groups, the usual ones first. */
export function groupingLabels(nodes: Iterable<NodeRow>): string[] {
  const values = new Map<string, Set<string>>();
  let count = 0;
  for (const row of nodes) {
    count += 1;
    for (const [key, value] of Object.entries(row.labels)) {
      let seen = values.get(key);
      if (!seen) values.set(key, (seen = new Set()));
      if (seen.size <= 64) seen.add(value);
    }
  }
  const usual = (key: string) => (key.endsWith("/zone") ? 0 : key.endsWith("/region") ? 1 : 2);
  return [...values]
    .filter(([, seen]) => seen.size <= 64 && (seen.size < count || count <= 2))
    .map(([key]) => key)
    .sort((a, b) => usual(a) - usual(b) || a.localeCompare(b));
}

export function cores(milli: number): string {
  return String(Math.round(milli / 10) / 100);
}

export function gib(mib: number): string {
  return mib >= 1024 ? `${Math.round((mib / 1024) * 10) / 10} GiB` : `${mib} MiB`;
}
