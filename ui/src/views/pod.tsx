import { useEffect, useState } from "preact/hooks";
import { ask, tell } from "../api";
import { cores, gib, type ClusterState, type Explanation, type PodRow, type Suggestion } from "../model";
import { href } from "../route";
import { encodePath } from "./cluster";

interface PodView {
  pod: PodRow;
  labels: Record<string, string>;
  story: { at: number; what: string; node?: string; reason?: string }[];
  queue?: { place: string; attempts: number; rejectedBy: string[]; waitsFor: string[]; gatedBy: string };
  explanation?: Explanation;
  error?: string;
}

export function PodPage({ name, state }: { name: string; state: ClusterState }) {
  const [view, setView] = useState<PodView | null>(null);
  const [error, setError] = useState("");
  const [round, setRound] = useState(0);
  const decisions = state.decisions.filter((each) => each.pod === name).length;
  useEffect(() => {
    let isCurrent = true;
    ask<PodView>(`pods/${encodePath(name)}`).then(
      (answer) => {
        if (!isCurrent) return;
        setView(answer);
        setError("");
      },
      (problem: Error) => isCurrent && setError(problem.message),
    );
    return () => {
      isCurrent = false;
    };
  }, [name, round, decisions]);
  if (!view) return <p role="status">{error || "Working out why…"}</p>;
  const { pod, explanation } = view;
  return (
    <section class="pod">
      <h2>{name}</h2>
      {error && <p class="warn" role="alert">{error}</p>}
      <p>
        {pod.node ? <>on <a href={href("cluster", "", { node: pod.node })}>{pod.node}</a></> : "waiting"} · cpu {cores(pod.cpu)} · memory{" "}
        {gib(pod.memory)} · priority {pod.priority} {pod.owner && <>· of {pod.owner}</>}{" "}
        {!pod.node && <a href={href("cluster", "", { pod: name })}>Show on the map where it fits</a>}
      </p>
      {view.error && <p class="warn">{view.error}</p>}
      {explanation && (
        <>
          <p class={`verdict ${explanation.verdict}`} data-testid="summary">{explanation.summary}.</p>
          {explanation.suggestions.length > 0 && (
            <>
              <h3>What would help (each tried out)</h3>
              <ol>
                {explanation.suggestions.map((each) => (
                  <Help key={each.change} suggestion={each} writable={state.writable} done={() => setRound((value) => value + 1)} />
                ))}
              </ol>
            </>
          )}
          {explanation.preemption && (
            <>
              <h3>Preemption</h3>
              <p>
                {explanation.preemption.possible
                  ? `Would evict ${explanation.preemption.victims.join(", ")} on ${explanation.preemption.node}.`
                  : explanation.preemption.message}
              </p>
            </>
          )}
          {explanation.scores.length > 0 && <Scores explanation={explanation} />}
          <Groups explanation={explanation} />
        </>
      )}
      {view.queue && (
        <>
          <h3>In the queue</h3>
          <p>
            {view.queue.place}, tried {view.queue.attempts} times
            {view.queue.rejectedBy.length > 0 && <>, rejected by {view.queue.rejectedBy.join(", ")}</>}
            {view.queue.waitsFor.length > 0 && <>, waits for {view.queue.waitsFor.join(", ")}</>}
          </p>
        </>
      )}
      <h3>Its story</h3>
      <ol class="story">
        {view.story.map((each, place) => (
          <li key={place}>
            <time>{new Date(each.at).toISOString().slice(11, 23)}</time> {each.what} {each.node} {each.reason}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Help(props: { suggestion: Suggestion; writable: boolean; done: () => void }) {
  const { suggestion, writable, done } = props;
  const [message, setMessage] = useState("");
  const apply = () =>
    tell("apply", { edits: suggestion.edits }).then(
      () => {
        setMessage("Done.");
        setTimeout(done, 600);
      },
      (problem: Error) => setMessage(problem.message),
    );
  return (
    <li>
      {suggestion.change} <span class="dim">→ {suggestion.node}</span>{" "}
      {writable && suggestion.edits.length > 0 && <button onClick={apply}>Apply</button>}
      {suggestion.command && <code class="command">{suggestion.command}</code>}
      {message && <span role="status"> {message}</span>}
    </li>
  );
}

function Scores({ explanation }: { explanation: Explanation }) {
  const first = explanation.scores[0];
  if (!first) return null;
  return (
    <>
      <h3>Best nodes</h3>
      <div class="scroll" tabIndex={0} role="region" aria-label="Best nodes">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th><th scope="col">Total</th>
              {first.plugins.map((each) => <th key={each.plugin} scope="col">{each.plugin}</th>)}
            </tr>
          </thead>
          <tbody>
            {explanation.scores.map((score) => (
              <tr key={score.node}>
                <td><a href={href("cluster", "", { node: score.node })}>{score.node}</a></td>
                <td>{score.total}</td>
                {score.plugins.map((each) => <td key={each.plugin}>{each.score}{each.weight !== 1 && ` × ${each.weight}`}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Groups({ explanation }: { explanation: Explanation }) {
  const rejecting = explanation.groups.filter((group) => group.rejections.length > 0);
  if (rejecting.length === 0) return null;
  return (
    <>
      <h3>Why not ({explanation.nodes} nodes)</h3>
      <ul class="groups">
        {rejecting.slice(0, 20).map((group) => (
          <li key={group.example}>
            <b>{group.count}</b> like <a href={href("cluster", "", { node: group.example })}>{group.example}</a>
            <ul>
              {group.rejections.map((each, place) => (
                <li key={place}>
                  {each.reason}
                  {each.asked && <>; asks {each.asked}</>}
                  {each.available && <>, there is at most {each.available}</>}
                  {each.detail && <>; {each.detail}</>} <span class="dim">{each.plugin}</span>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
    </>
  );
}
