/** The map of all nodes on a canvas: where each node is, what colour it has, who is under the pointer. */

import type { NodeRow } from "./model";

export interface Cell {
  x: number;
  y: number;
  size: number;
  node: NodeRow;
}

export interface Heading {
  text: string;
  x: number;
  y: number;
}

export interface Layout {
  cells: Cell[];
  headings: Heading[];
  height: number;
  size: number;
}

const HEADING = 22;
const GAP_BETWEEN_GROUPS = 10;

/** Squares as large as fit a comfortable height, group by group. */
export function layOut(groups: [string, NodeRow[]][], width: number): Layout {
  const count = groups.reduce((sum, [, members]) => sum + members.length, 0);
  const size = cellSize(count, width);
  const gap = size > 10 ? 2 : 1;
  const columns = Math.max(1, Math.floor(width / (size + gap)));
  const cells: Cell[] = [];
  const headings: Heading[] = [];
  let y = 0;
  for (const [name, members] of groups) {
    headings.push({ text: `${name} (${members.length})`, x: 0, y: y + 15 });
    y += HEADING;
    members.forEach((node, place) => {
      cells.push({
        x: (place % columns) * (size + gap),
        y: y + Math.floor(place / columns) * (size + gap),
        size,
        node,
      });
    });
    y += Math.ceil(members.length / columns) * (size + gap) + GAP_BETWEEN_GROUPS;
  }
  return { cells, headings, height: Math.max(y, 40), size };
}

function cellSize(count: number, width: number): number {
  if (!count) return 20;
  const size = Math.floor(Math.sqrt((width * 560) / count)) - 2;
  return Math.max(3, Math.min(size, 44));
}

/** The cell at a point, or undefined. Cells are few enough to look through. */
export function cellAt(layout: Layout, x: number, y: number): Cell | undefined {
  return layout.cells.find(
    (cell) => x >= cell.x && x < cell.x + cell.size && y >= cell.y && y < cell.y + cell.size,
  );
}

/** From empty to full; colours differ in lightness as well, for those who see few colours. */
const RAMP_LIGHT = ["#e3edf9", "#b9d3f0", "#86b4e4", "#4f8fd3", "#2d6bb8", "#c4622d", "#9d2f1f"];
const RAMP_DARK = ["#1c2a3d", "#274466", "#335f92", "#4580c0", "#6aa3e0", "#d98a4f", "#f0684e"];

export function rampColour(share: number | null, dark: boolean): string {
  if (share === null) return dark ? "#2a2f37" : "#eceff2";
  const ramp = dark ? RAMP_DARK : RAMP_LIGHT;
  // The last two steps are for nodes that are nearly full.
  const step = share >= 0.98 ? 6 : share >= 0.9 ? 5 : Math.floor(share / 0.18);
  return ramp[Math.min(step, 6)] ?? "#888888";
}

export function draw(
  canvas: HTMLCanvasElement,
  layout: Layout,
  width: number,
  colour: (node: NodeRow) => string,
  marked: string,
  dark: boolean,
): void {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(layout.height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${layout.height}px`;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  pen.font = "13px system-ui, sans-serif";
  pen.fillStyle = dark ? "#c9d1d9" : "#424a53";
  for (const heading of layout.headings) pen.fillText(heading.text, heading.x, heading.y);
  for (const cell of layout.cells) {
    pen.fillStyle = colour(cell.node);
    pen.fillRect(cell.x, cell.y, cell.size, cell.size);
    if (cell.node.notReady || cell.node.cordoned) {
      pen.strokeStyle = cell.node.notReady ? "#cf222e" : "#8a63d2";
      pen.lineWidth = cell.size > 10 ? 2 : 1;
      pen.strokeRect(cell.x + 0.5, cell.y + 0.5, cell.size - 1, cell.size - 1);
      if (cell.size > 8) {
        pen.beginPath();
        pen.moveTo(cell.x, cell.y + cell.size);
        pen.lineTo(cell.x + cell.size, cell.y);
        pen.stroke();
      }
    }
    if (cell.node.name === marked) {
      pen.strokeStyle = dark ? "#ffffff" : "#000000";
      pen.lineWidth = 2;
      pen.strokeRect(cell.x, cell.y, cell.size, cell.size);
    }
  }
}
