import { useState } from "preact/hooks";
import { plural } from "../format";
import { useAnswer, usePaced } from "../hooks";
import type { ClusterState } from "../model";
import { Empty, Loading, Message, PodLink, Table, Tile } from "../parts";
import type { ShadowEntry, ShadowReport } from "../wire";

const VERDICTS: [verdict: string, title: string, tone?: string][] = [
  ["same", "the same node"],
  ["tied", "the same score"],
  ["neither", "neither found a node"],
  ["sampled", "best of a sample"],
  ["another", "another node", "warm"],
  ["only-other", "only the other placed it", "warm"],
  ["only-shadow", "only the shadow places it", "warm"],
];

export function ShadowPage({ state }: { state: ClusterState }) {
  const paced = usePaced(state.version, 1000);
  const { value: report, error } = useAnswer<ShadowReport>("shadow", [paced]);
  const [open, setOpen] = useState("");
  if (!report) return error ? <Message text={error} bad /> : <Loading text="Loading the ledger…" />;
  if (!report.compared) {
    return (
      <Empty title="No decision has been compared yet." isHeading>
        The shadow compares each decision of the other scheduler a second after it is written.
      </Empty>
    );
  }
  return (
    <section>
      <h1>
        {share(report)} of {plural(report.compared, "decision is", "decisions are")} the same or tied
      </h1>
      <ul class="tiles">
        {VERDICTS.map(
          ([verdict, title, tone]) =>
            report.verdicts[verdict] && (
              <li key={verdict}>
                <Tile value={(report.verdicts[verdict] ?? 0).toLocaleString("en")} label={title} tone={tone} />
              </li>
            ),
        )}
      </ul>
      {report.differences.length === 0 ? (
        <p class="dim">No decision differs.</p>
      ) : (
        <>
          <h2>Last differences</h2>
          <Table label="Differences" head={["Pod", "Other scheduler", "Shadow", "Decided by", "Why"]}>
            {report.differences.slice(0, 200).map((entry) => {
              const key = `${entry.pod} ${entry.at}`;
              return (
                <Difference
                  key={key}
                  entry={entry}
                  isOpen={open === key}
                  toggle={() => setOpen(open === key ? "" : key)}
                />
              );
            })}
          </Table>
        </>
      )}
    </section>
  );
}

/** 100 % is exact: one difference among many decisions is not rounded away. */
function share(report: ShadowReport): string {
  if (report.agreed === 1) return "100 %";
  return `${Math.min(99.99, 100 * report.agreed).toFixed(2)} %`;
}

function Difference({ entry, isOpen, toggle }: { entry: ShadowEntry; isOpen: boolean; toggle: () => void }) {
  return (
    <tr>
      <td>
        <PodLink name={entry.pod} />
      </td>
      <td>{entry.node || "no node"}</td>
      <td>{entry.own_node || "no node"}</td>
      <td>{entry.plugin}</td>
      <td class="wide">
        {entry.summary}{" "}
        {entry.points.length > 0 && (
          <button type="button" class="small" onClick={toggle} aria-expanded={isOpen}>
            points
          </button>
        )}
        {isOpen && (
          <ul class="things">
            {entry.points.map((each) => (
              <li key={each.plugin}>
                {each.plugin}: {entry.own_node} {each.chosen}, {entry.node} {each.other}
              </li>
            ))}
          </ul>
        )}
      </td>
    </tr>
  );
}
