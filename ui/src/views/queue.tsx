import { useEffect, useState } from "preact/hooks";
import { ask } from "../api";
import type { ClusterState, PodRow } from "../model";
import { href } from "../route";

interface Place {
  pod: string;
  place: string;
  attempts: number;
  waitsFor: string[];
  rejectedBy: string[];
}

interface QueueView {
  reasons: { reason: string; count: number }[];
  waiting: PodRow[];
  places?: Place[];
}

export function QueuePage({ state }: { state: ClusterState }) {
  const [view, setView] = useState<QueueView | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let isCurrent = true;
    ask<QueueView>("queue").then(
      (answer) => isCurrent && setView(answer),
      (problem: Error) => isCurrent && setError(problem.message),
    );
    return () => {
      isCurrent = false;
    };
  }, [state.counts.waiting, state.totals.failed, state.totals.placed]);
  if (!view) return <p>{error || "…"}</p>;
  const places = new Map((view.places ?? []).map((each) => [each.pod, each]));
  return (
    <section>
      {state.queue && (
        <p class="counts">
          <b>{state.queue.active}</b> next in line <b>{state.queue.backoff}</b> backing off{" "}
          <b>{state.queue.unschedulable}</b> waiting for a change
        </p>
      )}
      <h2>Why pods wait</h2>
      {view.reasons.length === 0 && <p>No pod waits.</p>}
      <ul class="reasons">
        {view.reasons.map((each) => (
          <li key={each.reason}><b>{each.count}</b> {each.reason}</li>
        ))}
      </ul>
      <h2>In order of their turn</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Waiting pods">
        <table>
          <thead>
            <tr>
              <th scope="col">Pod</th><th scope="col">Priority</th><th scope="col">Where</th>
              <th scope="col">Tries</th><th scope="col">Rejected by</th><th scope="col">Waits for</th>
            </tr>
          </thead>
          <tbody>
            {view.waiting.map((pod) => {
              const place = places.get(pod.key);
              return (
                <tr key={pod.key}>
                  <td><a href={href("pod", pod.key)}>{pod.key}</a></td>
                  <td>{pod.priority}</td>
                  <td>{place?.place ?? "pending"}</td>
                  <td>{place?.attempts ?? ""}</td>
                  <td>{place?.rejectedBy.join(", ") ?? ""}</td>
                  <td>{place ? place.waitsFor.slice(0, 6).join(", ") : pod.reason}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}
