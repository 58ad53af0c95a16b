import { describe, expect, it } from "vitest";
import { cellAt, layOut, rampColour } from "../src/map";
import { ClusterState, fullness, grouped, groupingLabels, type Frame, type NodeRow } from "../src/model";
import { href, parseRoute } from "../src/route";

const row = (name: string, zone: string, cpu: [number, number] = [500, 1000]): NodeRow => ({
  name,
  labels: { zone, "kubernetes.io/hostname": name },
  cpu,
  memory: [0, 1024],
  pods: [1, 10],
});

const frame = (change: Partial<Frame>): Frame => ({
  at: 0,
  counts: { nodes: 0, pods: 0, placed: 0, waiting: 0 },
  decisions: [],
  totals: { placed: 0, failed: 0, preempted: 0 },
  ...change,
});

describe("the state of the cluster", () => {
  it("is replaced by a whole frame and edited by the next", () => {
    const state = new ClusterState();
    state.take(frame({ all: true, nodes: [row("a", "x"), row("b", "y")] }));
    state.take(frame({ nodes: [row("a", "z")], gone: ["b"] }));
    expect([...state.nodes.keys()]).toEqual(["a"]);
    expect(state.nodes.get("a")?.labels.zone).toBe("z");
  });

  it("keeps the last ten thousand decisions", () => {
    const state = new ClusterState();
    for (let start = 0; start < 12_000; start += 200) {
      const decisions = Array.from({ length: 200 }, (_, place) => ({ number: start + place + 1, at: 0, pod: "p", what: "placed" }));
      state.take(frame({ decisions }));
    }
    expect(state.decisions.length).toBe(10_000);
    expect(state.decisions[0]?.number).toBe(2001);
  });

  it("counts placements per second", () => {
    const state = new ClusterState();
    state.take(frame({ all: true, at: 1000 }));
    state.take(frame({ at: 3000, totals: { placed: 50, failed: 0, preempted: 0 } }));
    expect(state.samples[1]?.rate).toBe(25);
  });
});

describe("nodes", () => {
  it("are as full as they are asked for", () => {
    expect(fullness(row("a", "x"), "cpu")).toBe(0.5);
    expect(fullness(row("a", "x"), "example.com/gpu")).toBeNull();
  });

  it("are grouped by a label, in order of names with numbers", () => {
    const groups = grouped([row("n10", "b"), row("n2", "b"), row("n1", "a")], "zone");
    expect(groups.map(([name, members]) => [name, members.map((each) => each.name)])).toEqual([
      ["a", ["n1"]],
      ["b", ["n2", "n10"]],
    ]);
  });

  it("offer labels that group, not those that name", () => {
    expect(groupingLabels([row("a", "x"), row("b", "x"), row("c", "y")])).toEqual(["zone"]);
  });
});

describe("the map", () => {
  it("finds the node under the pointer", () => {
    const layout = layOut([["all", [row("a", "x"), row("b", "x")]]], 400);
    const second = layout.cells[1];
    expect(second && cellAt(layout, second.x + 1, second.y + 1)?.node.name).toBe("b");
    expect(cellAt(layout, 399, 5)).toBeUndefined();
  });

  it("fits five thousand nodes in a screen", () => {
    const nodes = Array.from({ length: 5000 }, (_, number) => row(`n${number}`, "x"));
    expect(layOut([["all", nodes]], 1200).height).toBeLessThan(900);
  });

  it("shows full nodes in another colour than empty ones", () => {
    expect(rampColour(1, false)).not.toBe(rampColour(0, false));
  });
});

describe("addresses", () => {
  it("hold names with slashes and odd characters", () => {
    const route = parseRoute(href("pod", "shop/web <1>", { node: "a&b" }));
    expect(route.view).toBe("pod");
    expect(route.rest).toBe("shop/web <1>");
    expect(route.query.get("node")).toBe("a&b");
  });
});
