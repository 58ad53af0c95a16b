import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { ClusterState, Decision } from "../model";
import { href } from "../route";
import { useDark } from "./cluster";

const SHOWN = 200;

export function LivePage(props: { state: ClusterState; paused: boolean; setPaused: (paused: boolean) => void }) {
  const { state, paused, setPaused } = props;
  const [at, setAt] = useState<number | null>(null);
  const last = state.decisions.length;
  const end = paused && at !== null ? Math.min(at, last) : last;
  const shown = state.decisions.slice(Math.max(0, end - SHOWN), end).reverse();
  const pause = () => {
    setAt(last);
    setPaused(!paused);
  };
  const move = (step: number) => {
    setPaused(true);
    setAt(Math.max(1, Math.min(last, end + step)));
  };
  return (
    <section class="live">
      <div class="charts">
        <Chart title="Pods placed per second" state={state} pick={(sample) => sample.rate} />
        <Chart title="Waiting" state={state} pick={(sample) => sample.waiting} />
        <Chart title="Placed" state={state} pick={(sample) => sample.placed} />
      </div>
      <div class="controls">
        <button onClick={pause} aria-pressed={paused}>{paused ? "Go on" : "Pause"}</button>
        <button onClick={() => move(-1)} disabled={end <= 1}>Step back</button>
        <button onClick={() => move(1)} disabled={!paused || end >= last}>Step forward</button>
        {paused && last > 0 && (
          <label>
            Time{" "}
            <input
              type="range"
              min={1}
              max={last}
              value={end}
              onInput={(event) => setAt(Number(event.currentTarget.value))}
            />
          </label>
        )}
        <span>
          {state.totals.placed} placed, {state.totals.failed} times no node, {state.totals.preempted} preempted
        </span>
      </div>
      <Decisions decisions={shown} />
    </section>
  );
}

export function Decisions({ decisions }: { decisions: Decision[] }) {
  if (decisions.length === 0) return <p>Nothing was decided since this page was opened.</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Decisions">
      <table>
        <thead>
          <tr><th scope="col">Time</th><th scope="col">Pod</th><th scope="col">Decision</th><th scope="col">Where, or why not</th></tr>
        </thead>
        <tbody>
          {decisions.map((each) => (
            <tr key={each.number}>
              <td>{new Date(each.at).toISOString().slice(11, 23)}</td>
              <td><a href={href("pod", each.pod)}>{each.pod}</a></td>
              <td><span class={`mark ${each.what}`}>{each.what}</span></td>
              <td>
                {each.node && <a href={href("cluster", "", { node: each.node })}>{each.node}</a>}
                {each.reason}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Chart(props: { title: string; state: ClusterState; pick: (sample: ClusterState["samples"][number]) => number }) {
  const { title, state, pick } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = useDark();
  useEffect(() => {
    if (!place.current) return;
    const ink = dark ? "#9aa4af" : "#57606a";
    const made = new uPlot(
      {
        width: place.current.clientWidth || 300,
        height: 120,
        cursor: { y: false },
        legend: { show: false },
        scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
        axes: [
          { stroke: ink, grid: { show: false }, size: 24 },
          { stroke: ink, grid: { stroke: dark ? "#30363d" : "#e5e9ed" }, size: 44 },
        ],
        series: [{}, { stroke: dark ? "#6aa3e0" : "#2457c5", width: 1.5, fill: dark ? "#6aa3e022" : "#2457c518" }],
      },
      [[], []],
      place.current,
    );
    plot.current = made;
    return () => made.destroy();
  }, [dark]);
  useEffect(() => {
    plot.current?.setData([state.samples.map((each) => each.at / 1000), state.samples.map(pick)]);
  }, [state.version, dark]);
  const latest = state.samples[state.samples.length - 1];
  return (
    <figure>
      <figcaption>{title}: <b>{latest ? Math.round(pick(latest)) : 0}</b></figcaption>
      <div ref={place} class="chart" />
    </figure>
  );
}
