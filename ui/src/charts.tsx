import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useDark } from "./hooks";

export interface Line {
  name: string;
  values: (number | null)[];
}

const COLOURS_LIGHT = ["#0b5cc4", "#b35900", "#6639ba", "#1a7f37", "#a8331f", "#57606a"];
const COLOURS_DARK = ["#74a9e6", "#e59a4c", "#b392f0", "#56d364", "#f4705a", "#9aa4af"];

/** Lines over time. `times` are in seconds: clock time, or time since the start if `isElapsed`. */
export function Chart(props: {
  title: string;
  now?: string;
  times: number[];
  lines: Line[];
  isElapsed?: boolean;
  mark?: number | null;
  version: unknown;
}) {
  const { title, times, lines, mark } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marked = useRef<number | null>(null);
  const dark = useDark();
  const names = lines.map((line) => line.name).join("\n");
  const colours = dark ? COLOURS_DARK : COLOURS_LIGHT;
  useEffect(() => {
    const frame = place.current;
    if (!frame) return;
    const ink = dark ? "#9aa4af" : "#59636e";
    const made = new uPlot(
      {
        width: frame.clientWidth || 300,
        height: 130,
        cursor: { y: false },
        legend: { show: false },
        scales: { x: { time: !props.isElapsed }, y: { range: (_, __, max) => [0, niceTop(max)] } },
        axes: [
          {
            stroke: ink,
            grid: { show: false },
            ticks: { show: false },
            size: 22,
            font: "11px system-ui",
            ...(props.isElapsed && { values: elapsedTicks }),
          },
          {
            stroke: ink,
            grid: { stroke: dark ? "#262c36" : "#e8ebee", width: 1 },
            ticks: { show: false },
            size: 42,
            font: "11px system-ui",
          },
        ],
        series: [
          {},
          ...lines.map((_, number) => {
            const stroke = colours[number % colours.length] ?? "#888";
            return { stroke, width: 1.75, points: { show: false }, ...(lines.length === 1 && { fill: `${stroke}1f` }) };
          }),
        ],
        hooks: { draw: [(self) => drawMark(self, marked.current, dark)] },
      },
      [[], ...lines.map(() => [])],
      frame,
    );
    plot.current = made;
    const resized = new ResizeObserver(() => {
      if (frame.clientWidth) made.setSize({ width: frame.clientWidth, height: 130 });
    });
    resized.observe(frame);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, [dark, names]);
  useEffect(() => {
    marked.current = mark ?? null;
    plot.current?.setData([times, ...lines.map((line) => line.values)] as uPlot.AlignedData);
  }, [props.version, dark, names, mark]);
  return (
    <figure class="card chart-card">
      <figcaption>
        <span>{title}</span> {props.now !== undefined && <b>{props.now}</b>}
      </figcaption>
      <div ref={place} class="chart" />
      {lines.length > 1 && (
        <p class="keys">
          {lines.map((line, number) => (
            <span key={line.name}>
              <svg width="12" height="4" aria-hidden="true">
                <rect width="12" height="4" fill={colours[number % colours.length]} />
              </svg>{" "}
              {line.name}
            </span>
          ))}
        </p>
      )}
    </figure>
  );
}

function niceTop(max: number): number {
  return max > 0 ? max * 1.12 : 1;
}

function elapsedTicks(_: uPlot, splits: number[]): string[] {
  const isLong = (splits[splits.length - 1] ?? 0) >= 7200;
  return splits.map((seconds) =>
    isLong
      ? `${Math.round((seconds / 3600) * 10) / 10} h`
      : seconds >= 120
        ? `${Math.round(seconds / 60)} min`
        : `${seconds} s`,
  );
}

function drawMark(self: uPlot, mark: number | null, dark: boolean): void {
  if (mark === null) return;
  const x = self.valToPos(mark, "x", true);
  self.ctx.save();
  self.ctx.strokeStyle = dark ? "#ffffff" : "#000000";
  self.ctx.lineWidth = 1.5;
  self.ctx.beginPath();
  self.ctx.moveTo(x, self.bbox.top);
  self.ctx.lineTo(x, self.bbox.top + self.bbox.height);
  self.ctx.stroke();
  self.ctx.restore();
}
