import { describe, expect, it } from "vitest";
import { ClusterState, extendedResources, fullness, grouped, groupingLabels, totalFullness } from "../src/model";
import { frame, row, shaped } from "./rows";

describe("the state of the cluster", () => {
  it("is replaced by a whole frame and edited by the next", () => {
    const state = new ClusterState();
    state.take(frame({ all: true, ...shaped(row("a", "x"), row("b", "y")) }));
    state.take(frame({ ...shaped(row("a", "z")), gone: ["b"] }));
    expect([...state.nodes.keys()]).toEqual(["a"]);
    expect(state.nodes.get("a")?.labels.zone).toBe("z");
  });

  it("says when the map must be laid out anew: not when a node is only fuller", () => {
    const state = new ClusterState();
    state.take(frame({ all: true, ...shaped(row("a", "x")) }));
    const before = state.structure;
    state.take(frame({ ...shaped(row("a", "x", [900, 1000])) }));
    expect(state.structure).toBe(before);
    state.take(frame({ ...shaped(row("b", "x")) }));
    expect(state.structure).toBeGreaterThan(before);
  });

  it("follows what is asked of a node without its row being sent again", () => {
    const state = new ClusterState();
    const gpu = { ...row("a", "x"), extended: { "example.com/gpu": [0, 8] as [number, number] } };
    state.take(frame({ all: true, ...shaped(gpu) }));
    state.take(
      frame({
        used: [
          ["a", 750, 512, 3, { "example.com/gpu": 2 }],
          ["b", 1, 1, 1],
        ],
      }),
    );
    expect([...state.nodes.values()]).toEqual([
      { ...gpu, cpu: [750, 1000], memory: [512, 1024], pods: [3, 10], extended: { "example.com/gpu": [2, 8] } },
    ]);
  });

  it("keeps the last ten thousand decisions, each once", () => {
    const state = new ClusterState();
    for (let start = 0; start < 12_000; start += 200) {
      const decisions = Array.from({ length: 201 }, (_, place) => ({
        number: start + place,
        at: 0,
        pod: "p",
        what: "placed",
      }));
      state.take(frame({ decisions }));
    }
    expect(state.decisions.length).toBe(10_000);
    expect(state.decisions[0]?.number).toBe(2001);
    expect(state.decisions[9999]?.number).toBe(12_000);
  });

  it("takes decisions of a timeline as they are, since a slider goes both ways", () => {
    const state = new ClusterState();
    state.outline = { title: "", runs: [] };
    state.take(frame({ decisions: [{ number: 7, at: 0, pod: "p", what: "placed" }] }));
    state.take(frame({ decisions: [{ number: 2, at: 0, pod: "q", what: "placed" }] }));
    expect(state.decisions.map((each) => each.number)).toEqual([2]);
  });

  it("counts placements per second, also between samples", () => {
    const state = new ClusterState();
    state.take(frame({ all: true, at: 1000 }));
    state.take(frame({ at: 1200, totals: { placed: 20, failed: 0, preempted: 0 } }));
    state.take(frame({ at: 3000, totals: { placed: 50, failed: 0, preempted: 0 } }));
    expect(state.samples.map((each) => each.rate)).toEqual([0, 25]);
  });
});

describe("nodes", () => {
  it("are as full as they are asked for", () => {
    expect(fullness(row("a", "x"), "cpu")).toBe(0.5);
    expect(fullness(row("a", "x"), "example.com/gpu")).toBeNull();
  });

  it("are as full together as all they have, not as the mean of shares", () => {
    expect(totalFullness([row("a", "x", [0, 3000]), row("b", "x", [1000, 1000])], "cpu")).toBe(0.25);
    expect(totalFullness([], "cpu")).toBeNull();
  });

  it("are grouped by a label, in order of names with numbers", () => {
    expect(grouped([row("n10", "b"), row("n2", "b"), row("n1", "a")], "zone")).toEqual([
      ["a", ["n1"]],
      ["b", ["n2", "n10"]],
    ]);
  });

  it("offer labels that group, not those that name", () => {
    expect(groupingLabels([row("a", "x"), row("b", "x"), row("c", "y")])).toEqual(["zone"]);
  });

  it("have other resources than the usual ones", () => {
    const gpu = { ...row("a", "x"), extended: { "example.com/gpu": [1, 8] as [number, number] } };
    expect(extendedResources([gpu, row("b", "x")])).toEqual(["example.com/gpu"]);
    expect(fullness(gpu, "example.com/gpu")).toBe(0.125);
  });
});
