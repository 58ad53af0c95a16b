import { duration, eventWords, plural } from "../format";
import { useAnswer, usePaced } from "../hooks";
import type { ClusterState, PodRow, QueueLengths } from "../model";
import { Empty, GroupLink, Loading, Message, PlaceMark, PodLink, Table } from "../parts";
import { href, type Route } from "../route";
import type { GroupRow, QueueView } from "../wire";
import { neededInWords } from "./group";

const PLACES: [place: string, title: string, hint: string][] = [
  ["active", "ready", "tried next, in this order"],
  ["backoff", "backoff", "tried again after their backoff"],
  ["unschedulable", "unschedulable", "tried again after an event that may help them"],
  ["gated", "gated", "gated by a scheduling gate or a plugin"],
];

const placeOf = (pod: PodRow) =>
  pod.queue?.place === "error backoff" ? "backoff" : (pod.queue?.place ?? "unschedulable");

export function QueuePage({ state, route }: { state: ClusterState; route: Route }) {
  const paced = usePaced(state.version, 500);
  const { value: view, error } = useAnswer<QueueView>("queue", [paced]);
  const only = route.query.get("place") ?? "";
  if (!view) return error ? <Message text={error} bad /> : <Loading text="Loading the queue…" />;
  if (view.total === 0) {
    return (
      <Empty title="No pod waits." isHeading>
        Every pod has a node.{" "}
        {state.writable && (
          <>
            Make one that fits nowhere under <a href={href("try")}>Try it</a> to see what happens.
          </>
        )}
      </Empty>
    );
  }
  const pods = only ? view.pods.filter((pod) => placeOf(pod) === only) : view.pods;
  return (
    <section>
      <h1>{plural(view.total, "pod waits", "pods wait")}</h1>
      {view.lengths && <Places lengths={view.lengths} only={only} />}
      {!only && <Reasons view={view} />}
      {!only && view.groups && <Groups groups={view.groups} />}
      <h2>{only ? PLACES.find(([place]) => place === only)?.[1] : "Waiting pods and their reasons"}</h2>
      {view.shown < view.total && (
        <p class="dim">
          The first {view.shown} of {view.total.toLocaleString("en")}, in the order of priority and age.
        </p>
      )}
      {pods.length === 0 ? (
        <p class="dim">No pods at the moment.</p>
      ) : (
        <Waiting pods={pods} state={state} isKnown={Boolean(view.lengths)} />
      )}
    </section>
  );
}

function Places({ lengths, only }: { lengths: QueueLengths; only: string }) {
  return (
    <ul class="tiles places">
      {PLACES.map(([place, title, hint]) => (
        <li key={place}>
          <a
            class="tile"
            href={href("queue", "", { place: only === place ? "" : place })}
            aria-current={only === place ? "true" : undefined}
            title={hint}
          >
            <b>{(lengths[place as keyof QueueLengths] ?? 0).toLocaleString("en")}</b> <span>{title}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function Reasons({ view }: { view: QueueView }) {
  const most = Math.max(1, ...view.reasons.map((each) => each.count));
  return (
    <>
      <h2>Why</h2>
      <ul class="reasons">
        {view.reasons.map((each) => (
          <li key={each.reason}>
            <b class="many">{each.count}</b>
            <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
              <rect class="bar-back" width="100" height="8" />
              <rect class="bar-front" width={(each.count / most) * 100} height="8" />
            </svg>
            <span>
              <b>{each.reason}</b>{" "}
              {each.count === 1 ? (
                <PodLink name={each.example} />
              ) : (
                <>
                  for example <PodLink name={each.example} />
                </>
              )}
              {each.message !== each.reason && (
                <span class="dim clamped" title={each.message}>
                  {each.message}
                </span>
              )}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Groups({ groups }: { groups: GroupRow[] }) {
  return (
    <>
      <h2>Pod groups with pods that wait</h2>
      <Table label="Pod groups" head={["Group", "Pods", "On nodes", "Placed together", "What it waits for"]}>
        {groups.map((group) => (
          <tr key={group.key}>
            <td>
              <GroupLink name={group.key} />
            </td>
            <td class="number">{group.pods}</td>
            <td class="number">{group.placed}</td>
            <td>{neededInWords(group)}</td>
            <td class="wide">{group.message ?? group.status}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

function Waiting({ pods, state, isKnown }: { pods: PodRow[]; state: ClusterState; isKnown: boolean }) {
  const next = pods.find((pod) => placeOf(pod) === "active")?.key;
  if (!isKnown) {
    return (
      <Table label="Waiting pods" head={["Pod", "Priority", "Why it waits"]}>
        {pods.map((pod) => (
          <tr key={pod.key}>
            <td>
              <PodLink name={pod.key} />
            </td>
            <td class="number">{pod.priority}</td>
            <td class="wide">{pod.reason ?? "not tried yet"}</td>
          </tr>
        ))}
      </Table>
    );
  }
  return (
    <Table label="Waiting pods" head={["Pod", "Priority", "Where", "Tries", "For", "Rejected by", "Waits for"]}>
      {pods.map((pod) => (
        <tr key={pod.key}>
          <td>
            <PodLink name={pod.key} />
          </td>
          <td class="number">{pod.priority}</td>
          <td>
            <PlaceMark place={pod.queue?.place ?? "pending"} /> {pod.key === next && <b class="next">next</b>}
          </td>
          <td class="number">{pod.queue?.attempts ?? ""}</td>
          <td class="number">{pod.queue ? duration(state.at - pod.queue.since) : ""}</td>
          <td>{pod.queue?.gatedBy || pod.queue?.rejectedBy.join(", ")}</td>
          <td class="wide">
            <WaitsFor pod={pod} now={state.at} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

function WaitsFor({ pod, now }: { pod: PodRow; now: number }) {
  const place = pod.queue;
  if (!place) return null;
  if (place.nominatedTo) return <>preemption on {place.nominatedTo}</>;
  if (place.until && place.until > now) return <>the end of its backoff, in {duration(place.until - now)}</>;
  const shown = place.waitsFor.slice(0, 4).map(eventWords).join(", ");
  const more = place.waitsFor.length - 4;
  return (
    <span title={place.waitsFor.join(", ")}>
      {shown}
      {more > 0 && ` and ${more} more`}
    </span>
  );
}
