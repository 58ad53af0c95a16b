/** The map of all nodes on a canvas: layout, colours, and the node under the pointer. */

import type { NodeRow } from "./model";

/** A group of nodes as rows of squares. */
export interface Block {
  title: string;
  names: string[];
  y: number; // of the first row of squares
}

export interface Layout {
  blocks: Block[];
  size: number;
  gap: number;
  columns: number;
  height: number;
}

const EASY = 12;
const HEADING = 26;
const BETWEEN = 14;
const NAMED = 90; // up to so many nodes are shown with their names
const COMFORTABLE = 480; // the preferred maximum height in pixels
const SMALLEST_SHARE = 0.4; // the side of the smallest square, as a share of its cell
const SMALLEST = 4; // its side in pixels, if cells are that large
const WITH_NAME = 44; // squares of this side have a name and a share
const WITH_SHARE = 28; // smaller ones only the share

/** Lays out the squares by group, as large as fit the preferred height. */
export function layOut(groups: [string, string[]][], width: number): Layout {
  const count = groups.reduce((sum, [, members]) => sum + members.length, 0);
  const size = cellSize(count, width, Math.max(1, ...groups.map(([, members]) => members.length)));
  const gap = size > 12 ? 3 : size > 5 ? 2 : 1;
  const columns = Math.max(1, Math.floor((width + gap) / (size + gap)));
  const blocks: Block[] = [];
  let y = 0;
  for (const [title, names] of groups) {
    blocks.push({ title, names, y: y + HEADING });
    y += HEADING + Math.ceil(names.length / columns) * (size + gap) + BETWEEN;
  }
  return { blocks, size, gap, columns, height: Math.max(y, 60) };
}

function cellSize(count: number, width: number, largest: number): number {
  if (!count) return 20;
  const size = Math.floor(Math.sqrt((width * COMFORTABLE) / count)) - 2;
  if (count > NAMED) return Math.max(2, Math.min(size, 40));
  // With few nodes, the largest group should fit in one line.
  const inOneLine = Math.floor((width + 3) / largest) - 3;
  return Math.min(size, Math.max(68, Math.min(inOneLine, 112)));
}

/** The position of a node's square. */
export function cornerOf(layout: Layout, block: Block, place: number): { x: number; y: number } {
  const step = layout.size + layout.gap;
  return { x: (place % layout.columns) * step, y: block.y + Math.floor(place / layout.columns) * step };
}

/** The position of the cell of a node; undefined if it is not on the map. */
export function placeOf(layout: Layout, name: string): { x: number; y: number } | undefined {
  if (!name) return undefined;
  for (const block of layout.blocks) {
    const place = block.names.indexOf(name);
    if (place >= 0) return cornerOf(layout, block, place);
  }
  return undefined;
}

/** The side of a node's square: its area is in proportion to its cpu, within bounds. */
export function sideOf(size: number, cpu: number, largest: number): number {
  const exact = size * Math.sqrt(largest > 0 ? Math.max(cpu, 0) / largest : 1);
  return Math.round(Math.min(size, Math.max(exact, size * SMALLEST_SHARE, SMALLEST)));
}

/** The cpu of the largest node, in the unit of the rows. */
export function largestCpu(nodes: Iterable<NodeRow>): number {
  let largest = 0;
  for (const row of nodes) largest = Math.max(largest, row.cpu[1]);
  return largest;
}

/** A square as it is drawn, in the middle of its cell. */
interface Square {
  row: NodeRow;
  x: number;
  y: number;
  side: number;
}

function* squaresOf(layout: Layout, block: Block, nodes: Map<string, NodeRow>, largest: number): Iterable<Square> {
  for (const [place, name] of block.names.entries()) {
    const row = nodes.get(name);
    if (!row) continue;
    const corner = cornerOf(layout, block, place);
    const side = sideOf(layout.size, row.cpu[1], largest);
    const margin = Math.floor((layout.size - side) / 2);
    yield { row, x: corner.x + margin, y: corner.y + margin, side };
  }
}

/** Returns the name of the node in whose cell a point is, or undefined. */
export function nodeAt(layout: Layout, x: number, y: number): string | undefined {
  const step = layout.size + layout.gap;
  const column = Math.floor(x / step);
  // A point between large squares hits nothing. Small squares must be easy to hit.
  const reach = layout.size < EASY ? step : layout.size;
  if (x < 0 || column >= layout.columns || x - column * step >= reach) return undefined;
  for (const block of layout.blocks) {
    const row = Math.floor((y - block.y) / step);
    if (row < 0 || row * layout.columns >= block.names.length) continue;
    if (y - block.y - row * step >= reach) return undefined;
    return block.names[row * layout.columns + column];
  }
  return undefined;
}

/** Returns the neighbour of a node in a direction; without a node the first one. */
export function neighbour(layout: Layout, name: string, key: string): string | undefined {
  const names = layout.blocks.flatMap((block) => block.names);
  const steps: Record<string, number> = {
    ArrowRight: 1,
    ArrowLeft: -1,
    ArrowDown: layout.columns,
    ArrowUp: -layout.columns,
  };
  const step = steps[key];
  if (step === undefined) return undefined;
  const place = names.indexOf(name);
  if (place < 0) return names[0];
  return names[Math.max(0, Math.min(names.length - 1, place + step))];
}

/** Colours from empty to full. They differ in lightness too, for colour-blind users. */
const RAMP_LIGHT = ["#dbe7f6", "#b3cdee", "#85aee2", "#588dd2", "#356fba", "#d07a26", "#a8331f"];
const RAMP_DARK = ["#22324a", "#2b4a75", "#37659f", "#4b84c6", "#74a9e6", "#e59a4c", "#f4705a"];
/** The lowest share of each step of the ramp. */
export const STEPS = [0, 0.18, 0.36, 0.54, 0.72, 0.9, 0.98];

export function rampColour(share: number | null, dark: boolean): string {
  if (share === null) return dark ? "#272d36" : "#eceff2";
  const ramp = dark ? RAMP_DARK : RAMP_LIGHT;
  let step = 0;
  while (step < STEPS.length - 1 && share >= (STEPS[step + 1] ?? 2)) step += 1;
  return ramp[step] ?? "#888888";
}

export const fitColour = (fits: boolean, dark: boolean) =>
  fits ? (dark ? "#3fb950" : "#1a7f37") : dark ? "#3d2a2d" : "#f3d9d5";

export interface Paint {
  colour: (row: NodeRow) => string;
  heading: (block: Block) => string;
  text: (row: NodeRow) => string;
  marked: string;
  pointed: string;
  dark: boolean;
}

export function draw(
  canvas: HTMLCanvasElement,
  layout: Layout,
  width: number,
  nodes: Map<string, NodeRow>,
  paint: Paint,
): void {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(layout.height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${layout.height}px`;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  const largest = largestCpu(nodes.values());
  // Squares of one colour are filled together: setting a colour costs more than a square.
  const byColour = new Map<string, Square[]>();
  const special: Square[] = [];
  for (const block of layout.blocks) {
    pen.font = "600 13px system-ui, sans-serif";
    pen.fillStyle = paint.dark ? "#e6edf3" : "#1f2328";
    pen.fillText(block.title, 0, block.y - 9);
    const after = pen.measureText(block.title).width + 10;
    pen.font = "13px system-ui, sans-serif";
    pen.fillStyle = paint.dark ? "#9aa4af" : "#59636e";
    pen.fillText(paint.heading(block), after, block.y - 9);
    for (const square of squaresOf(layout, block, nodes, largest)) {
      const { row } = square;
      const colour = paint.colour(row);
      const squares = byColour.get(colour);
      if (squares) squares.push(square);
      else byColour.set(colour, [square]);
      if (row.notReady || row.stopped || row.cordoned || row.name === paint.marked || row.name === paint.pointed)
        special.push(square);
    }
  }
  for (const [colour, squares] of byColour) {
    pen.fillStyle = colour;
    pen.beginPath();
    for (const { x, y, side } of squares) {
      if (side >= 14) pen.roundRect(x, y, side, side, 3);
      else pen.rect(x, y, side, side);
    }
    pen.fill();
  }
  if (layout.size >= WITH_NAME) {
    for (const block of layout.blocks)
      for (const square of squaresOf(layout, block, nodes, largest)) writeName(pen, square, paint);
  }
  for (const square of special) drawSpecial(pen, square, paint);
}

/** Draws name and usage into a square, in a readable text colour. */
function writeName(pen: CanvasRenderingContext2D, { row, x, y, side }: Square, paint: Paint): void {
  if (side < WITH_SHARE) return;
  pen.save();
  pen.beginPath();
  pen.rect(x, y, side - 2, side);
  pen.clip();
  pen.fillStyle = inkOn(paint.colour(row));
  if (side >= WITH_NAME) {
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(fitting(pen, row.name, side - 9), x + 5, y + 15);
    pen.font = "600 13px system-ui, sans-serif";
    pen.fillText(paint.text(row), x + 5, y + side - 8);
  } else {
    pen.font = "600 10px system-ui, sans-serif";
    pen.fillText(paint.text(row), x + 2, y + side - 4);
  }
  pen.restore();
}

/** A name, or as much of its end as fits: names of nodes differ at their ends. */
function fitting(pen: CanvasRenderingContext2D, name: string, width: number): string {
  let shown = name;
  for (let cut = 1; cut < name.length && pen.measureText(shown).width > width; cut += 1) shown = `…${name.slice(cut)}`;
  return shown;
}

/** Returns black or white, whichever has the higher contrast to a colour. */
export function inkOn(colour: string): string {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => channel(parseInt(colour.slice(at, at + 2), 16) / 255));
  const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
}

const channel = (value: number) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);

function drawSpecial(pen: CanvasRenderingContext2D, { row, x, y, side: size }: Square, paint: Paint): void {
  const isDown = row.notReady || row.stopped;
  if (isDown || row.cordoned) {
    pen.strokeStyle = isDown ? (paint.dark ? "#ff7b72" : "#cf222e") : paint.dark ? "#b392f0" : "#6639ba";
    pen.lineWidth = size > 10 ? 2 : 1;
    pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    if (size > 6) {
      // Squares with text have their mark in the free corner.
      const edge = size >= WITH_NAME ? 16 : size;
      const [left, top] = [x + size - edge, size >= WITH_NAME ? y + size - edge : y];
      pen.beginPath();
      pen.moveTo(left, top + edge);
      pen.lineTo(left + edge, top);
      if (isDown) {
        pen.moveTo(left, top);
        pen.lineTo(left + edge, top + edge);
      }
      pen.stroke();
    }
  }
  if (row.name === paint.marked || row.name === paint.pointed) {
    pen.strokeStyle = paint.dark ? "#ffffff" : "#000000";
    pen.lineWidth = row.name === paint.marked ? 2.5 : 1.5;
    pen.strokeRect(x - 1, y - 1, size + 2, size + 2);
  }
}
