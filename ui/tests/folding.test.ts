import { expect, test } from "vitest";
import { folded } from "../src/folding";
import type { Decision } from "../src/model";

const decision = (number: number, pod: string, what: string, more: Partial<Decision> = {}): Decision => ({
  number,
  at: number,
  pod,
  what,
  ...more,
});

test("failed attempts of a pod are one line, with the newest reason", () => {
  const full = { reason: "0/3 nodes are available" };
  const shown = folded([
    decision(6, "shop/web", "unschedulable", full),
    decision(5, "shop/db", "placed", { node: "a" }),
    decision(4, "shop/web", "unschedulable", full),
    decision(3, "shop/web", "unschedulable", { reason: "another" }),
    decision(2, "shop/db", "placed", { node: "b" }),
    decision(1, "shop/web", "unschedulable", full),
  ]);
  expect(shown.map(({ decision: { number }, times }) => [number, times])).toEqual([
    [6, 4],
    [5, 1],
    [2, 1],
  ]);
});
