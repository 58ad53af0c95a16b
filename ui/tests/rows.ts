/** Rows and frames for tests: only what matters is said. */

import type { Frame, NodeRow } from "../src/model";

export const row = (name: string, zone: string, cpu: [number, number] = [500, 1000]): NodeRow => ({
  name,
  labels: { zone, "kubernetes.io/hostname": name },
  cpu,
  memory: [0, 1024],
  pods: [1, 10],
});

/** Rows as a frame has them: shapes, and nodes that name theirs. */
export const shaped = (...rows: NodeRow[]): Pick<Frame, "shapes" | "nodes"> => ({
  shapes: rows.map(({ labels, cpu, memory, pods, extended }) => ({
    labels,
    cpu: cpu[1],
    memory: memory[1],
    pods: pods[1],
    ...(extended && { extended: Object.fromEntries(Object.entries(extended).map(([key, [, total]]) => [key, total])) }),
  })),
  nodes: rows.map((each, place) => [place, each.name, each.cpu[0], each.memory[0], each.pods[0]]),
});

export const frame = (change: Partial<Frame>): Frame => ({
  at: 0,
  counts: { nodes: 0, pods: 0, placed: 0, waiting: 0 },
  decisions: [],
  totals: { placed: 0, failed: 0, preempted: 0 },
  ...change,
});
