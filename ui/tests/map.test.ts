import { describe, expect, it } from "vitest";
import { cornerOf, fitColour, inkOn, layOut, neighbour, nodeAt, placeOf, rampColour, sideOf } from "../src/map";

const names = (count: number) => Array.from({ length: count }, (_, number) => `n${number}`);

describe("the map", () => {
  it("finds the node under the pointer, in any group and row", () => {
    const layout = layOut(
      [
        ["x", names(100)],
        ["y", ["z1", "z2"]],
      ],
      400,
    );
    for (const block of layout.blocks) {
      block.names.forEach((name, place) => {
        const { x, y } = cornerOf(layout, block, place);
        expect(nodeAt(layout, x + 1, y + 1)).toBe(name);
        expect(nodeAt(layout, x + layout.size + layout.gap / 2, y)).toBeUndefined();
      });
    }
    expect(nodeAt(layout, 5, 3)).toBeUndefined();
    expect(nodeAt(layout, 399, layout.height - 1)).toBeUndefined();
  });

  it("is easy to hit where squares are small", () => {
    const layout = layOut([["x", names(20_000)]], 1200);
    const block = layout.blocks[0];
    if (!block) throw new Error("no block");
    const { x, y } = cornerOf(layout, block, 7);
    expect(nodeAt(layout, x + layout.size + layout.gap / 2, y)).toBe("n7");
  });

  it("fits five thousand nodes in a screen, and fifty thousand in little more", () => {
    expect(layOut([["all", names(5000)]], 1200).height).toBeLessThan(650);
    expect(layOut([["all", names(50_000)]], 1200).height).toBeLessThan(900);
  });

  it("shows few nodes as large as leaves a group in one line", () => {
    const few = layOut(
      [
        ["x", names(10)],
        ["y", names(10)],
        ["z", names(10)],
      ],
      1200,
    );
    expect(few.columns).toBeGreaterThanOrEqual(10);
    expect(few.size).toBeGreaterThan(100);
    expect(
      layOut(
        [
          ["x", names(10)],
          ["y", names(10)],
          ["z", names(10)],
        ],
        360,
      ).size,
    ).toBeLessThanOrEqual(75);
  });

  it("gives a square an area in proportion to the cpu of its node", () => {
    expect(sideOf(100, 64_000, 64_000)).toBe(100);
    expect(sideOf(100, 16_000, 64_000)).toBe(50);
    expect(sideOf(100, 32_000, 64_000)).toBe(71);
  });

  it("draws no square too small to be seen, and none larger than its cell", () => {
    expect(sideOf(100, 1, 64_000)).toBe(40);
    expect(sideOf(100, 0, 0)).toBe(100);
    expect(sideOf(5, 1, 64_000)).toBe(4);
    expect(sideOf(2, 1, 64_000)).toBe(2);
  });

  it("knows the place of a node", () => {
    const layout = layOut([["x", names(30)]], 200);
    const block = layout.blocks[0];
    if (!block) throw new Error("no block");
    expect(placeOf(layout, "n7")).toEqual(cornerOf(layout, block, 7));
    expect(placeOf(layout, "")).toBeUndefined();
    expect(placeOf(layout, "other")).toBeUndefined();
  });

  it("is walked by arrow keys, and no further than its ends", () => {
    const layout = layOut([["x", names(30)]], 200);
    expect(neighbour(layout, "", "ArrowRight")).toBe("n0");
    expect(neighbour(layout, "n0", "ArrowRight")).toBe("n1");
    expect(neighbour(layout, "n0", "ArrowLeft")).toBe("n0");
    expect(neighbour(layout, "n0", "ArrowDown")).toBe(`n${layout.columns}`);
    expect(neighbour(layout, "n29", "ArrowDown")).toBe("n29");
    expect(neighbour(layout, "n0", "a")).toBeUndefined();
  });

  it("has another colour for each step from empty to full, in light and dark", () => {
    for (const dark of [true, false]) {
      const colours = [0, 0.2, 0.4, 0.6, 0.8, 0.95, 1].map((share) => rampColour(share, dark));
      expect(new Set(colours).size).toBe(7);
      expect(colours).not.toContain(rampColour(null, dark));
      expect(fitColour(true, dark)).not.toBe(fitColour(false, dark));
    }
  });
});

describe("ink", () => {
  it("can be read on every colour of the map", () => {
    for (const dark of [true, false]) {
      for (const share of [0, 0.2, 0.4, 0.6, 0.8, 0.95, 1, null]) {
        expect(contrast(rampColour(share, dark), inkOn(rampColour(share, dark)))).toBeGreaterThan(4.5);
      }
    }
  });
});

function contrast(first: string, second: string): number {
  const lights = [first, second].map((colour) => {
    const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
    const [red = 0, green = 0, blue = 0] = parts.map((part) =>
      part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4,
    );
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  });
  return (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
}
