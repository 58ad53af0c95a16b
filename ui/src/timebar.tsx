import { useEffect, useRef, useState } from "preact/hooks";
import { dateTime, duration } from "./format";
import type { Outline, Run } from "./model";

const PLAY_MS = 30_000; // the duration of playing a whole run
const TICK_MS = 150;

/** The time bar of a timeline: a slider, a play button, and the selected run. */
export function TimeBar(props: {
  outline: Outline;
  run: Run;
  at: number;
  go: (at: number) => void;
  choose: (run: string) => void;
}) {
  const { outline, run, at, go, choose } = props;
  const [playing, setPlaying] = useState(false);
  const now = useRef(at);
  now.current = at;
  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(
      () => {
        const next = after(run, now.current);
        go(next);
        if (next >= run.end) setPlaying(false);
      },
      run.moments.length ? 900 : TICK_MS,
    );
    return () => clearInterval(timer);
  }, [playing, run]);
  const play = () => {
    if (!playing && at >= run.end) go(run.start);
    setPlaying(!playing);
  };
  const span = Math.max(1, run.end - run.start);
  const words = momentWords(outline, run, at);
  return (
    <div class="timebar" role="group" aria-label="Time">
      <button class="main" onClick={play}>
        {playing ? "Stop" : "Play"}
      </button>
      <button onClick={() => go(before(run, at))} disabled={at <= run.start} aria-label="Back">
        ‹
      </button>
      <div class="track">
        <svg class="marks" viewBox="0 0 1000 6" preserveAspectRatio="none" aria-hidden="true">
          {run.marks.map((mark) => (
            <rect key={mark} x={((mark - run.start) / span) * 998} width="2" height="6" />
          ))}
        </svg>
        <input
          type="range"
          aria-label="Moment"
          aria-valuetext={words}
          min={run.start}
          max={run.end}
          step={1}
          value={at}
          onInput={(event) => {
            setPlaying(false);
            go(nearest(run, Number(event.currentTarget.value)));
          }}
        />
      </div>
      <button onClick={() => go(after(run, at))} disabled={at >= run.end} aria-label="Forward">
        ›
      </button>
      <output data-testid="moment">{words}</output>
      {outline.runs.length > 1 && (
        <label>
          Run{" "}
          <select value={run.name} onChange={(event) => choose(event.currentTarget.value)}>
            {outline.runs.map((each) => (
              <option key={each.name}>{each.name}</option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}

/** A moment as a wave of a plan, as a duration in a simulation, or as a time. */
export function momentWords(outline: Outline, run: Run, at: number): string {
  if (outline.plan) {
    const last = run.moments.length - 1;
    const wave = run.moments.indexOf(at);
    return wave <= 0 ? "before the first wave" : `after wave ${wave} of ${last}`;
  }
  if (outline.isReport) return `${duration(at - run.start)} of ${duration(run.end - run.start)}`;
  return dateTime(at);
}

function nearest(run: Run, at: number): number {
  if (!run.moments.length) return at;
  return run.moments.reduce((best, each) => (Math.abs(each - at) < Math.abs(best - at) ? each : best));
}

/** The next selectable moment, or a two-hundredth of the run later. */
export function after(run: Run, at: number): number {
  if (run.moments.length) return run.moments.find((each) => each > at) ?? run.end;
  return Math.min(run.end, Math.round(at + ((run.end - run.start) * TICK_MS) / PLAY_MS));
}

export function before(run: Run, at: number): number {
  if (run.moments.length) return [...run.moments].reverse().find((each) => each < at) ?? run.start;
  return Math.max(run.start, Math.round(at - ((run.end - run.start) * TICK_MS) / PLAY_MS));
}
