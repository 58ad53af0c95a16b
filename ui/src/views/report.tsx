import { Chart } from "../charts";
import { duration } from "../format";
import type { ClusterState, Outline, Run, RunSummary } from "../model";
import { Empty, Table } from "../parts";
import { href } from "../route";

/** The series to show, if they exist; for groups and zones only the totals. */
const SHOWN: [pattern: RegExp, title: (name: string) => string][] = [
  [/^pending$/, () => "Waiting pods"],
  [/^bound$/, () => "Pods placed so far"],
  [/^preempted$/, () => "Pods preempted so far"],
  [/^nodes$/, () => "Nodes"],
  [/^[^:]+ allocated$/, (name) => `${name.replace(" allocated", "")} requested, share`],
  [/^[^:]+ stranded$/, (name) => `${name.replace(" stranded", "")} that nothing fits on, share`],
  [/^[^:]+ fragmented$/, (name) => `${name.replace(" fragmented", "")} in fragments, share`],
  [/^cost$/, () => "Cost so far"],
];

/** A simulation: its configurations in common charts, with a mark at the time of the slider. */
export function ReportPage({ state, at }: { state: ClusterState; at: number | null }) {
  const { outline } = state;
  if (!outline) return <Empty title="There is no simulation here." />;
  const first = outline.runs[0];
  if (!first) return <Empty title="There is no run in it." />;
  const mark = at === null ? null : (at - first.start) / 1000;
  return (
    <section class="report">
      <h1>{outline.title}</h1>
      {(outline.comparisons ?? []).map((each) => (
        <p key={each} class="verdict">
          {each}.
        </p>
      ))}
      {!outline.hasObjects && (
        <p class="message">
          These results have numbers only. <code>kubesched simulate … -o run.history</code> stores nodes and pods as
          well, and then this page shows the cluster at every moment.
        </p>
      )}
      <Summaries summaries={outline.summaries ?? []} />
      <div class="charts">
        {seriesOf(outline).map(({ name, title }) => (
          <Series key={name} name={name} title={title} runs={outline.runs} mark={mark} />
        ))}
      </div>
      {outline.hasObjects && (
        <p>
          <a href={href("cluster")}>The cluster at this moment</a>
        </p>
      )}
    </section>
  );
}

export function seriesOf(outline: Outline): { name: string; title: string }[] {
  const names = new Set(outline.runs.flatMap((run) => Object.keys(run.series)));
  const isInteresting = (name: string) =>
    outline.runs.some((run) => (run.series[name] ?? []).some((value) => value > 0));
  return SHOWN.flatMap(([pattern, title]) =>
    [...names]
      .filter((name) => pattern.test(name) && isInteresting(name))
      .sort()
      .map((name) => ({ name, title: title(name) })),
  );
}

function Series({ name, title, runs, mark }: { name: string; title: string; runs: Run[]; mark: number | null }) {
  const times = [...new Set(runs.flatMap((run) => run.series.time ?? []))].sort((a, b) => a - b);
  const lines = runs.map((run) => {
    const known = new Map((run.series.time ?? []).map((time, place) => [time, run.series[name]?.[place] ?? null]));
    return { name: run.name, values: times.map((time) => known.get(time) ?? null) };
  });
  return <Chart title={title} times={times} lines={lines} isElapsed mark={mark} version={runs} />;
}

function Summaries({ summaries }: { summaries: RunSummary[] }) {
  if (summaries.length === 0) return null;
  const seconds = (value: number | undefined) => (value === undefined ? "–" : duration(value * 1000));
  return (
    <Table
      label="Runs"
      head={["Configuration", "Seed", "Placed", "Waiting at the end", "Preempted", "Time to bind, half", "99 of 100"]}
    >
      {summaries.map((each) => (
        <tr key={`${each.configuration}/${each.seed}`}>
          <td>{each.configuration}</td>
          <td class="number">{each.seed}</td>
          <td class="number">{each.counts.bound ?? 0}</td>
          <td class="number">{Object.values(each.pending).reduce((sum, count) => sum + count, 0)}</td>
          <td class="number">{each.counts.preempted ?? 0}</td>
          <td class="number">{seconds(each.timeToBind.p50)}</td>
          <td class="number">{seconds(each.timeToBind.p99)}</td>
        </tr>
      ))}
    </Table>
  );
}
