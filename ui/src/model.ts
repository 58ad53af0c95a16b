/** The state that the page keeps: frames of the server, merged. */

import type {
  Counts,
  Decision,
  Frame,
  NodeShape,
  Outline,
  PageNode,
  PodRow,
  QueueLengths,
  QueuePlace,
  ReadLimits,
  Run,
  RunSummary,
} from "./wire";

export type {
  Counts,
  Decision,
  Frame,
  NodeShape as Shape,
  Outline,
  PageNode as NodeRow,
  PodRow,
  QueueLengths,
  QueuePlace,
  ReadLimits as Limits,
  Run,
  RunSummary,
};

export type Amount = PageNode["cpu"];
export type Usage = NonNullable<Frame["used"]>[number];
/** A node: the index of its shape in the frame, then its usage. */
export type ShapedNode = NonNullable<Frame["nodes"]>[number];

const KEPT_DECISIONS = 10_000;
const KEPT_SAMPLES = 600;
const SAMPLE_MS = 500;

export interface Sample {
  at: number;
  rate: number;
  waiting: number;
  median: number;
  high: number;
  queue: QueueLengths;
}

const EMPTY_QUEUE: QueueLengths = { active: 0, backoff: 0, unschedulable: 0, gated: 0 };

/** The state of the cluster, updated by each frame. */
export class ClusterState {
  title = "";
  writable = false;
  hasShadow = false;
  hasPanels = false;
  limits: ReadLimits | undefined;
  counts: Counts = { nodes: 0, pods: 0, placed: 0, waiting: 0 };
  nodes = new Map<string, PageNode>();
  decisions: Decision[] = [];
  totals = { placed: 0, failed: 0, preempted: 0 };
  queue: QueueLengths | undefined;
  samples: Sample[] = [];
  at = 0;
  /** Increases with every frame. */
  version = 0;
  /** Increases when nodes are added or removed or change labels: the map then needs a new layout. */
  structure = 0;
  isConnected = false;
  /** Set if the page shows timelines instead of a live cluster. */
  outline: Outline | null = null;

  take(frame: Frame): void {
    if (frame.all) {
      this.nodes.clear();
      this.title = frame.title ?? this.title;
      this.writable = frame.writable ?? false;
      this.hasShadow = frame.shadow ?? false;
      this.hasPanels = frame.panels ?? false;
      this.limits = frame.limits;
      this.samples = [];
      this.structure += 1;
    }
    for (const [place, ...usage] of frame.nodes ?? []) {
      const shape = frame.shapes?.[place];
      if (shape) this.takeNode(rowOf(shape, usage));
    }
    for (const usage of frame.used ?? []) this.takeUsage(usage);
    for (const name of frame.gone ?? []) {
      if (this.nodes.delete(name)) this.structure += 1;
    }
    this.counts = frame.counts;
    this.queue = frame.queue;
    if (this.outline) this.decisions = frame.decisions;
    else this.addDecisions(frame.decisions);
    this.sample(frame);
    this.totals = frame.totals;
    this.at = frame.at;
    this.version += 1;
  }

  private takeNode(row: PageNode): void {
    const known = this.nodes.get(row.name);
    if (!known || !sameLabels(known.labels, row.labels)) this.structure += 1;
    this.nodes.set(row.name, row);
  }

  private takeUsage([name, cpu, memory, pods, extended]: Usage): void {
    const known = this.nodes.get(name);
    if (!known) return;
    const row: PageNode = {
      ...known,
      cpu: [cpu, known.cpu[1]],
      memory: [memory, known.memory[1]],
      pods: [pods, known.pods[1]],
    };
    if (known.extended) {
      row.extended = Object.fromEntries(
        Object.entries(known.extended).map(([key, [, total]]) => [key, [extended?.[key] ?? 0, total]]),
      );
    }
    this.nodes.set(name, row);
  }

  private addDecisions(fresh: Decision[]): void {
    const last = this.decisions[this.decisions.length - 1]?.number ?? 0;
    this.decisions.push(...fresh.filter((each) => each.number > last));
    if (this.decisions.length > KEPT_DECISIONS) {
      this.decisions.splice(0, this.decisions.length - KEPT_DECISIONS);
    }
  }

  private sample(frame: Frame): void {
    const last = this.samples[this.samples.length - 1];
    if (last && frame.at - last.at < SAMPLE_MS) return;
    const seconds = last ? Math.max((frame.at - last.at) / 1000, 0.001) : 1;
    const placed = last ? frame.totals.placed - this.sampledPlaced : 0;
    this.sampledPlaced = frame.totals.placed;
    this.samples.push({
      at: frame.at,
      rate: Math.max(placed / seconds, 0),
      waiting: frame.counts.waiting,
      median: frame.latency?.[0] ?? 0,
      high: frame.latency?.[1] ?? 0,
      queue: frame.queue ?? EMPTY_QUEUE,
    });
    if (this.samples.length > KEPT_SAMPLES) this.samples.shift();
  }

  private sampledPlaced = 0;
}

/** Builds a node from its shape and usage. Nodes of one shape share its labels. */
export function rowOf(shape: NodeShape, [name, cpu, memory, pods, extended]: Usage): PageNode {
  const row: PageNode = {
    name,
    labels: shape.labels,
    cpu: [cpu, shape.cpu],
    memory: [memory, shape.memory],
    pods: [pods, shape.pods],
  };
  if (shape.extended) {
    row.extended = Object.fromEntries(
      Object.entries(shape.extended).map(([key, total]) => [key, [extended?.[key] ?? 0, total]]),
    );
  }
  if (shape.cordoned) row.cordoned = true;
  if (shape.notReady) row.notReady = true;
  if (shape.stopped) row.stopped = true;
  if (shape.taints) row.taints = shape.taints;
  return row;
}

function sameLabels(first: Record<string, string>, second: Record<string, string>): boolean {
  if (first === second) return true;
  const keys = Object.keys(first);
  if (keys.length !== Object.keys(second).length) return false;
  return keys.every((key) => first[key] === second[key]);
}

/** Returns the requested and the total amount of a resource of a node. */
export function amountOf(row: PageNode, resource: string): Amount | undefined {
  if (resource === "cpu" || resource === "memory" || resource === "pods") return row[resource];
  return row.extended?.[resource];
}

/** Returns the requested share of a resource, 0 to 1; null if the node has none of it. */
export function fullness(row: PageNode, resource: string): number | null {
  const amount = amountOf(row, resource);
  if (!amount || amount[1] <= 0) return null;
  return Math.min(amount[0] / amount[1], 1);
}

/** Returns the requested share over several nodes; null if none has the resource. */
export function totalFullness(rows: Iterable<PageNode>, resource: string): number | null {
  let used = 0;
  let total = 0;
  for (const row of rows) {
    const amount = amountOf(row, resource);
    if (!amount) continue;
    used += amount[0];
    total += amount[1];
  }
  return total > 0 ? used / total : null;
}

const collator = new Intl.Collator("en", { numeric: true });

/** Groups the names of nodes by the value of a label, sorted. */
export function grouped(nodes: Iterable<PageNode>, label: string): [string, string[]][] {
  const groups = new Map<string, string[]>();
  for (const row of nodes) {
    const key = label ? (row.labels[label] ?? "(none)") : "all nodes";
    const members = groups.get(key);
    if (members) members.push(row.name);
    else groups.set(key, [row.name]);
  }
  for (const members of groups.values()) members.sort(collator.compare);
  return [...groups].sort((a, b) => collator.compare(a[0], b[0]));
}

/** Returns label keys with a manageable number of values, well-known keys first. */
export function groupingLabels(nodes: Iterable<PageNode>): string[] {
  const values = new Map<string, Set<string>>();
  let count = 0;
  // Nodes of a pool share their labels object, so each object is read once.
  const looked = new Set<Record<string, string>>();
  for (const row of nodes) {
    count += 1;
    if (looked.has(row.labels)) continue;
    looked.add(row.labels);
    for (const key in row.labels) {
      let seen = values.get(key);
      if (!seen) {
        seen = new Set();
        values.set(key, seen);
      }
      if (seen.size <= 64) seen.add(row.labels[key] ?? "");
    }
  }
  const usual = (key: string) => (key.endsWith("/zone") ? 0 : key.endsWith("/region") ? 1 : 2);
  return [...values]
    .filter(([, seen]) => seen.size <= 64 && (seen.size < count || count <= 2))
    .map(([key]) => key)
    .sort((a, b) => usual(a) - usual(b) || a.localeCompare(b));
}

/** Returns the extended resources of all nodes. */
export function extendedResources(nodes: Iterable<PageNode>): string[] {
  const found = new Set<string>();
  for (const row of nodes) for (const name in row.extended ?? {}) found.add(name);
  return [...found].sort();
}
