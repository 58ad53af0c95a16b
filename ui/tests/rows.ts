/** Rows and frames for tests: only what matters is said. */

import type { Frame, NodeRow } from "../src/model";

export const row = (name: string, zone: string, cpu: [number, number] = [500, 1000]): NodeRow => ({
  name,
  labels: { zone, "kubernetes.io/hostname": name },
  cpu,
  memory: [0, 1024],
  pods: [1, 10],
});

export const frame = (change: Partial<Frame>): Frame => ({
  at: 0,
  counts: { nodes: 0, pods: 0, placed: 0, waiting: 0 },
  decisions: [],
  totals: { placed: 0, failed: 0, preempted: 0 },
  ...change,
});
