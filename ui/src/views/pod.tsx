import { useState } from "preact/hooks";
import { tell } from "../api";
import { clockTime, cores, dateTime, duration, eventWords, gib, plural } from "../format";
import { useAnswer } from "../hooks";
import type { ClusterState, PodRow, QueuePlace } from "../model";
import { Empty, GroupLink, Loading, Mark, Message, NodeLink, PlaceMark, PodLink, Table } from "../parts";
import { encodePath, href } from "../route";
import type { Explanation, HistoryStep, PodView, Suggestion } from "../wire";

/** A pod: why it waits or runs on its node, what would help, and its history. */
export function PodPage({ name, state }: { name: string; state: ClusterState }) {
  const [round, setRound] = useState(0);
  const decided = state.decisions.filter((each) => each.pod === name);
  const version = `${decided.length}/${decided[decided.length - 1]?.number ?? 0}/${state.outline ? state.at : 0}`;
  const { value: view, error } = useAnswer<PodView>(`pods/${encodePath(name)}`, [round, version]);
  const why = useAnswer<Explanation>(view ? `explanations/${encodePath(name)}` : "", [round, version]);
  if (error && !view)
    return (
      <Empty title={error}>
        <a href={href("queue")}>Waiting pods</a>
      </Empty>
    );
  if (!view) return <Loading text="Loading the pod…" />;
  return (
    <section class="pod">
      <h1>{name}</h1>
      <Facts pod={view.pod} isGone={Boolean(error)} />
      {why.error && <Message text={why.error} bad />}
      {!why.value && !why.error && <Loading text="Computing the explanation…" />}
      <div class="columns">
        <div>
          {why.value && (
            <Why explanation={why.value} state={state} pod={view.pod} done={() => setRound((value) => value + 1)} />
          )}
        </div>
        <div>
          {view.queue && <InQueue place={view.queue} now={state.at} />}
          <History steps={view.history} isRecorded={Boolean(state.outline)} />
          {Object.keys(view.labels).length > 0 && (
            <p class="labels">
              Labels{" "}
              {Object.entries(view.labels).map(([key, value]) => (
                <code key={key}>
                  {key}={value}
                </code>
              ))}
            </p>
          )}
        </div>
      </div>
    </section>
  );
}

function Facts({ pod, isGone }: { pod: PodRow; isGone: boolean }) {
  return (
    <p class="facts">
      {isGone ? (
        <Mark what="gone" />
      ) : pod.node ? (
        <>
          <Mark what={pod.leaving ? "leaving" : "placed"} /> on <NodeLink name={pod.node} />
        </>
      ) : (
        <Mark what="waiting" />
      )}
      <span>cpu {cores(pod.cpu)}</span>
      <span>memory {gib(pod.memory)}</span>
      {Object.entries(pod.extended ?? {}).map(([key, amount]) => (
        <span key={key}>
          {key} {amount}
        </span>
      ))}
      <span>priority {pod.priority}</span>
      {pod.owner && <span>of {pod.owner}</span>}
      {pod.group && (
        <span>
          in the group <GroupLink name={pod.group} />
        </span>
      )}
      {!pod.node && !isGone && <a href={href("cluster", "", { pod: pod.key })}>Show on the map where it fits</a>}
    </p>
  );
}

function Why(props: { explanation: Explanation; state: ClusterState; pod: PodRow; done: () => void }) {
  const { explanation, state, pod, done } = props;
  const { preemption, suggestions } = explanation;
  return (
    <>
      <p class={`verdict ${explanation.verdict}`} data-testid="summary">
        {explanation.summary}.
      </p>
      {suggestions.length > 0 && (
        <>
          <h2>What would help</h2>
          <p class="dim">Each was tried out on a copy of the cluster: with it, the pod has a node.</p>
          <ol class="suggestions">
            {suggestions.map((each) => (
              <Help key={each.change} suggestion={each} writable={state.writable} done={done} />
            ))}
          </ol>
        </>
      )}
      {preemption && (
        <>
          <h2>Preemption</h2>
          <p>
            {preemption.possible ? (
              <>
                Would evict{" "}
                {preemption.victims.map((victim) => (
                  <PodLink key={victim} name={victim} />
                ))}{" "}
                on <NodeLink name={preemption.node} />.
              </>
            ) : (
              preemption.message
            )}
          </p>
        </>
      )}
      <Groups explanation={explanation} />
      <Scores explanation={explanation} placed={pod.node} />
    </>
  );
}

function Help(props: { suggestion: Suggestion; writable: boolean; done: () => void }) {
  const { suggestion, writable, done } = props;
  const [message, setMessage] = useState("");
  const [isBad, setBad] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const apply = () => {
    setBusy(true);
    tell("apply", { edits: suggestion.edits }).then(
      () => {
        setBad(false);
        setMessage("Done.");
        setTimeout(done, 600);
      },
      (problem: Error) => {
        setBad(true);
        setMessage(problem.message);
        setBusy(false);
      },
    );
  };
  return (
    <li>
      <div class="suggestion">
        <span>
          {suggestion.change} {suggestion.node && <span class="dim">then it goes to {suggestion.node}</span>}
        </span>
        {writable && suggestion.edits.length > 0 && (
          <button class="main" onClick={apply} disabled={isBusy}>
            Apply
          </button>
        )}
      </div>
      {suggestion.command && (
        <code class="command" tabIndex={0}>
          {suggestion.command}
        </code>
      )}
      <Message text={message} bad={isBad} />
    </li>
  );
}

function Groups({ explanation }: { explanation: Explanation }) {
  const rejecting = explanation.groups.filter((group) => group.rejections.length > 0);
  if (rejecting.length === 0) return null;
  const count = rejecting.reduce((sum, group) => sum + group.count, 0);
  return (
    <>
      <h2>
        Why not there ({count} of {plural(explanation.nodes, "node")})
      </h2>
      <ul class="groups">
        {rejecting.slice(0, 20).map((group) => (
          <li key={group.example}>
            <p>
              <b>{group.count === 1 ? "" : `${group.count} like `}</b>
              <NodeLink name={group.example} />
            </p>
            <ul>
              {group.rejections.map((each, place) => (
                <li key={place}>
                  {each.reason}
                  {each.asked && <>; requests {each.asked}</>}
                  {each.available && <>, there is at most {each.available}</>}
                  {each.detail && <>; {each.detail}</>} <span class="dim">{each.plugin}</span>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
      {rejecting.length > 20 && <p class="dim">and {rejecting.length - 20} kinds of nodes more</p>}
    </>
  );
}

function Scores({ explanation, placed }: { explanation: Explanation; placed: string }) {
  const first = explanation.scores[0];
  if (!first) return null;
  return (
    <>
      <h2>Best nodes{placed && " if it were placed now"}</h2>
      <Table label="Best nodes" head={["Node", "Total", ...first.plugins.map((each) => each.plugin)]}>
        {explanation.scores.map((score) => (
          <tr key={score.node}>
            <td>
              <NodeLink name={score.node} />
            </td>
            <td class="number">
              <b>{score.total}</b>
            </td>
            {score.plugins.map((each) => (
              <td key={each.plugin} class="number">
                {each.score}
                {each.weight !== 1 && ` × ${each.weight}`}
              </td>
            ))}
          </tr>
        ))}
      </Table>
    </>
  );
}

function InQueue({ place, now }: { place: QueuePlace; now: number }) {
  return (
    <div class="card in-queue">
      <h2>In the queue</h2>
      <p>
        <PlaceMark place={place.place} /> for {duration(now - place.since)}, tried{" "}
        {place.attempts === 1 ? "once" : `${place.attempts} times`}
        {place.gatedBy && <>, gated by {place.gatedBy}</>}
        {place.until !== undefined && place.until > now && <>, backs off for {duration(place.until - now)} more</>}
        {place.nominatedTo && (
          <>
            , nominated to <NodeLink name={place.nominatedTo} />
          </>
        )}
      </p>
      {place.rejectedBy.length > 0 && <p>Rejected by {place.rejectedBy.join(", ")}.</p>}
      {place.waitsFor.length > 0 && (
        <details>
          <summary>Tried again on {plural(place.waitsFor.length, "kind")} of event</summary>
          <ul>
            {place.waitsFor.map((each) => (
              <li key={each}>{eventWords(each)}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

const FIRST_STEPS = 5;
const LAST_STEPS = 8;

function History({ steps, isRecorded }: { steps: HistoryStep[]; isRecorded: boolean }) {
  const [isWhole, setWhole] = useState(false);
  const hidden = isWhole ? 0 : Math.max(0, steps.length - FIRST_STEPS - LAST_STEPS - 1);
  const shown = hidden ? [...steps.slice(0, FIRST_STEPS), null, ...steps.slice(-LAST_STEPS)] : steps;
  return (
    <>
      <h2>History</h2>
      {steps.length === 0 && <p class="dim">No events are recorded.</p>}
      <ol class="history">
        {shown.map((each, place) =>
          each === null ? (
            <li key="more" class="more">
              <span />
              <button class="small" onClick={() => setWhole(true)}>
                {plural(hidden, "step")} in between
              </button>
            </li>
          ) : (
            <li key={place} class={each.what}>
              <time dateTime={new Date(each.at).toISOString()}>
                {isRecorded ? dateTime(each.at) : clockTime(each.at)}
              </time>
              <div>
                {each.text} {each.node && <NodeLink name={each.node} />} {each.event && <b>{eventWords(each.event)}</b>}{" "}
                {each.then}
                {(each.attempt ?? 0) > 1 && <span class="dim"> attempt {each.attempt}</span>}
                {each.reason && <p class="dim">{each.reason}</p>}
              </div>
            </li>
          ),
        )}
      </ol>
    </>
  );
}
