import { afterEach, describe, expect, it } from "vitest";
import { cores, duration, eventWords, gib, limitsInWords, micro, plural } from "../src/format";
import type { Outline, Run } from "../src/model";
import { href, moment, parseRoute } from "../src/route";
import { after, before, momentWords } from "../src/timebar";
import { changesOf } from "../src/views/plan";
import { seriesOf } from "../src/views/report";

afterEach(() => {
  moment.at = moment.run = "";
});

describe("limits", () => {
  it("are said with what follows from them", () => {
    expect(limitsInWords({ unknown: ["Node", "StorageClass"], partial: [], namespace: "shop" })).toBe(
      "Not read: Node, StorageClass. Rules about them are left out.",
    );
    expect(limitsInWords({ unknown: [], partial: ["Pod"], namespace: "shop" })).toContain(
      "those of namespace shop only",
    );
  });
});

describe("addresses", () => {
  it("hold names with slashes and odd characters", () => {
    const route = parseRoute(href("pod", "shop/web <1>", { node: "a&b" }));
    expect(route.view).toBe("pod");
    expect(route.rest).toBe("shop/web <1>");
    expect(route.query.get("node")).toBe("a&b");
  });

  it("say which moment of which run is looked at", () => {
    moment.at = "1500";
    moment.run = "packed";
    const { query } = parseRoute(href("cluster", "", { node: "a" }));
    expect([query.get("node"), query.get("at"), query.get("run")]).toEqual(["a", "1500", "packed"]);
  });

  it("survive being cut in the middle of a character", () => {
    expect(parseRoute("#/pod/shop/%E4%B8").rest).toBe("shop/%E4%B8");
  });
});

describe("numbers and times", () => {
  it("are read as people write them", () => {
    expect(cores(1250)).toBe("1.25");
    expect(gib(1536)).toBe("1.5 GiB");
    expect(gib(512)).toBe("512 MiB");
    expect(plural(1, "node")).toBe("1 node");
    expect(plural(5000, "node")).toBe("5,000 nodes");
    expect(duration(850)).toBe("850 ms");
    expect(duration(200_000)).toBe("3 min 20 s");
    expect(duration(179_600)).toBe("3 min 0 s");
    expect(duration(59_960)).toBe("1 min 0 s");
    expect(duration(7_500_000)).toBe("2 h 5 min");
    expect(micro(70)).toBe("70 µs");
    expect(eventWords("NodeUpdateNodeTaint")).toBe("Node update node taint");
  });
});

const run = (change: Partial<Run>): Run => ({
  name: "r",
  start: 0,
  end: 1000,
  moments: [],
  marks: [],
  series: {},
  ...change,
});

describe("a timeline", () => {
  it("is stepped through by its moments, if it has some", () => {
    const captures = run({ moments: [0, 300, 1000] });
    expect(after(captures, 0)).toBe(300);
    expect(before(captures, 1000)).toBe(300);
    expect(after(captures, 1000)).toBe(1000);
    expect(before(captures, 0)).toBe(0);
  });

  it("is played in small steps otherwise, up to its end", () => {
    const whole = run({ end: 60_000 });
    expect(after(whole, 0)).toBe(300);
    expect(after(whole, 59_900)).toBe(60_000);
  });

  it("shows series of the whole cluster that are not all zero", () => {
    const series = { time: [1], pending: [3], preempted: [0], "cpu allocated": [0.4], "pool-a: cpu allocated": [0.4] };
    const outline: Outline = { title: "", runs: [run({ series })] };
    expect(seriesOf(outline).map((each) => each.name)).toEqual(["pending", "cpu allocated"]);
  });
});

describe("a plan", () => {
  const move = (from: string, to: string) => ({ pod: "p", from, to, wave: 1 });
  it("counts the pods that leave and reach a node", () => {
    expect(changesOf([move("a", "b"), move("a", "b"), move("b", "c")])).toEqual({ a: "−2", b: "−1 +2", c: "+1" });
  });

  it("names the waves", () => {
    const run = { name: "plan", start: 5, end: 7, moments: [5, 6, 7], marks: [], series: {} };
    const plan = { nodes: 1, planned: 1, bound: 1, verified: true, moves: [], emptied: [], kept: {}, problems: [] };
    const outline = { title: "", runs: [run], plan };
    expect(momentWords(outline, run, 5)).toBe("before the first wave");
    expect(momentWords(outline, run, 7)).toBe("after wave 2 of 2");
  });
});
