/**
 * The JSON that the server sends, generated from kubesched.dashboard.wire_types and
 * kubesched.explain by `python -m tests.dashboard.wire_typescript`.
 */

export interface BlamedPlugin {
  plugin: string;
  count: number;
}

export interface Counts {
  nodes: number;
  pods: number;
  placed: number;
  waiting: number;
}

export interface Decision {
  number: number;
  at: number;
  pod: string;
  what: string;
  node?: string;
  reason?: string;
  attempt?: number;
  took?: number;
  best?: ([string, number])[];
}

export interface DecisionPage {
  first: number;
  last: number;
  decisions: Decision[];
}

export interface DecisionTotals {
  placed: number;
  failed: number;
  preempted: number;
}

export interface Edit {
  action: string;
  kind: string;
  api_version: string;
  name: string;
  namespace: string;
  document: Record<string, unknown> | null;
}

export interface Explanation {
  pod: string;
  verdict: string;
  summary: string;
  breakdown: string;
  advice: string;
  node: string;
  current_node: string;
  nodes: number;
  feasible: number;
  message: string;
  groups: VerdictGroup[];
  suggestions: Suggestion[];
  preemption: Preemption | null;
  scores: NodeScore[];
  ties: number;
  margin: number;
  versus: Versus | null;
  queue: Record<string, unknown> | null;
  unknown: string[];
  partial: string[];
}

export interface Frame {
  all?: boolean;
  number?: number;
  at: number;
  title?: string;
  writable?: boolean;
  shadow?: boolean;
  panels?: boolean;
  counts: Counts;
  limits?: ReadLimits;
  shapes?: NodeShape[];
  nodes?: ([number, string, number, number, number] | [number, string, number, number, number, Record<string, number>])[];
  gone?: string[];
  used?: ([string, number, number, number] | [string, number, number, number, Record<string, number>])[];
  decisions: Decision[];
  totals: DecisionTotals;
  latency?: [number, number];
  queue?: QueueLengths;
}

export interface GroupRow {
  key: string;
  policy: string;
  needed: number;
  pods: number;
  placed: number;
  status: string;
  message?: string;
  topology?: string;
  priority?: number;
}

export interface GroupUse {
  group: string;
  nodes_before: number;
  nodes_after: number;
  pods_before: number;
  pods_after: number;
  cpu_before: number;
  cpu_after: number;
  memory_before: number;
  memory_after: number;
}

export interface GroupView {
  group: GroupRow;
  pods: PodRow[];
}

export interface HistoryStep {
  at: number;
  what: string;
  text: string;
  node?: string;
  reason?: string;
  event?: string;
  then?: string;
  attempt?: number;
}

export interface Move {
  pod: string;
  before: string;
  after: string;
}

export interface NodeDetail {
  name: string;
  labels: Record<string, string>;
  cpu: [number, number];
  memory: [number, number];
  pods: [number, number];
  extended?: Record<string, [number, number]>;
  cordoned?: boolean;
  notReady?: boolean;
  stopped?: boolean;
  taints?: string[];
  created: string;
  devices: NodeDevice[];
  volumes: NodeVolume[];
  volumeLimits: VolumeLimit[];
  list: PodRow[];
}

export interface NodeDevice {
  driver: string;
  pool: string;
  name: string;
  facts: string[];
  taints: string[];
  usedBy: string[];
}

export interface NodeScore {
  node: string;
  total: number;
  plugins: PluginScore[];
}

export interface NodeShape {
  labels: Record<string, string>;
  cpu: number;
  memory: number;
  pods: number;
  extended?: Record<string, number>;
  cordoned?: boolean;
  notReady?: boolean;
  stopped?: boolean;
  taints?: string[];
}

export interface NodeVolume {
  name: string;
  usedBy: string[];
  phase: string;
  class?: string;
  size?: string;
  volume?: string;
}

export interface Outline {
  title: string;
  runs: Run[];
  isReport?: boolean;
  hasObjects?: boolean;
  comparisons?: string[];
  summaries?: RunSummary[];
  plan?: PlanOutline;
}

export interface PageNode {
  name: string;
  labels: Record<string, string>;
  cpu: [number, number];
  memory: [number, number];
  pods: [number, number];
  extended?: Record<string, [number, number]>;
  cordoned?: boolean;
  notReady?: boolean;
  stopped?: boolean;
  taints?: string[];
}

export interface Panel {
  title: string;
  summary: string;
  tone: unknown;
  rows: PanelRow[];
  more: number;
}

export interface PanelMark {
  share: number;
  text: string;
}

export interface PanelMeter {
  name: string;
  share: number;
  text: string;
  marks: PanelMark[];
  tone: unknown;
}

export interface PanelRow {
  name: string;
  state: string;
  tone: unknown;
  text: string;
  meters: PanelMeter[];
  pods: string[];
  node: string;
}

export interface PendingCause {
  verdict: string;
  summary: string;
  advice: string;
  pods: WaitingPodRow[];
  suggestions: Suggestion[];
}

export interface PendingReport {
  subject: string;
  pods: number;
  pending: number;
  missing: number;
  note: string;
  causes: PendingCause[];
  unknown: string[];
  partial: string[];
}

export interface PlanMove {
  pod: string;
  from: string;
  to: string;
  wave: number;
}

export interface PlanOutline {
  nodes: number;
  planned: number;
  bound: number;
  verified: boolean;
  moves: PlanMove[];
  emptied: string[][];
  kept: Record<string, string>;
  problems: string[];
}

export interface PluginPanels {
  plugin: string;
  panels: Panel[];
}

export interface PluginScore {
  plugin: string;
  score: number;
  weight: number;
  points: number;
}

export interface PodGroupDomain {
  name: string;
  nodes: number;
  fits: number;
}

export interface PodGroupExplanation {
  group: string;
  verdict: string;
  summary: string;
  policy: string;
  min_count: number;
  pods: number;
  scheduled: number;
  fits: number;
  topology_key: string;
  domains: PodGroupDomain[];
  message: string;
  condition: string;
  members: PendingReport;
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
  group?: string;
  reason?: string;
  queue?: QueuePlace;
}

export interface PodVerdicts {
  fits: string[];
  rejected: Record<string, string>;
}

export interface PodView {
  pod: PodRow;
  labels: Record<string, string>;
  history: HistoryStep[];
  queue?: QueuePlace;
}

export interface Preemption {
  possible: boolean;
  node: string;
  victims: string[];
  budgets_violated: string[];
  message: string;
  priority_needed: number | null;
  blocked_by_policy: boolean;
}

export interface QueueLengths {
  active: number;
  backoff: number;
  unschedulable: number;
  gated: number;
}

export interface QueuePlace {
  place: string;
  since: number;
  attempts: number;
  rejectedBy: string[];
  waitsFor: string[];
  gatedBy?: string;
  nominatedTo?: string;
  until?: number;
  flushed?: number;
}

export interface QueueView {
  total: number;
  shown: number;
  lengths?: QueueLengths;
  reasons: WaitingReason[];
  groups?: GroupRow[];
  blamed: BlamedPlugin[];
  pods: PodRow[];
}

export interface ReadLimits {
  unknown: string[];
  partial: string[];
  namespace: string;
}

export interface Rejection {
  plugin: string;
  reason: string;
  asked: string;
  available: string;
  detail: string;
  preemptable: boolean;
  cause: Record<string, unknown> | null;
}

export interface Run {
  name: string;
  start: number;
  end: number;
  moments: number[];
  marks: number[];
  series: Record<string, number[]>;
}

export interface RunSummary {
  configuration: string;
  seed: number;
  counts: Record<string, number>;
  pending: Record<string, number>;
  timeToBind: Record<string, number>;
  averages: Record<string, number>;
}

export interface ScalableWorkload {
  kind: string;
  namespace: string;
  name: string;
  replicas: number;
}

export interface SearchHit {
  kind: string;
  name: string;
}

export interface ShadowEntry {
  at: string;
  pod: string;
  profile: string;
  verdict: string;
  state: string;
  node: string;
  own_node: string;
  summary: string;
  plugin: string;
  points: VersusPoint[];
}

export interface ShadowReport {
  since: string;
  until: string;
  compared: number;
  agreed: number;
  verdicts: Record<string, number>;
  profiles: Record<string, Record<string, number>>;
  states: Record<string, number>;
  causes: Record<string, number>;
  not_compared: Record<string, number>;
  differences: ShadowEntry[];
  entries: ShadowEntry[];
}

export interface Suggestion {
  change: string;
  verified: boolean;
  node: string;
  kind: string;
  parts: string[];
  command: string;
  size: number;
  edits: Edit[];
}

export interface VerdictGroup {
  count: number;
  example: string;
  rejections: Rejection[];
  nodes: string[];
}

export interface Versus {
  node: string;
  other: string;
  summary: string;
  points: VersusPoint[];
  rejections: Rejection[];
}

export interface VersusPoint {
  plugin: string;
  chosen: number;
  other: number;
  difference: number;
}

export interface VolumeLimit {
  driver: string;
  limit: number;
}

export interface Waiting {
  pod: string;
  reason: string;
}

export interface WaitingPodRow {
  pod: string;
  owner: string;
  waiting_s: number | null;
}

export interface WaitingReason {
  reason: string;
  message: string;
  count: number;
  example: string;
}

export interface WhatIf {
  summary: string;
  moved: Move[];
  new: Move[];
  gone: string[];
  waiting: Waiting[];
  preempted: string[];
  placed: Move[];
  blocked: Waiting[];
  groups: GroupUse[];
  drain_order: string[];
  settled: boolean;
}
