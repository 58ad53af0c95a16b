import { useEffect, useRef, useState } from "preact/hooks";
import { tell } from "../api";
import { cores, gib, plural } from "../format";
import { useAnswer } from "../hooks";
import type { ClusterState, PodRow } from "../model";
import { Loading, Message, Meter, PodLink } from "../parts";
import { href, podHref } from "../route";
import type { NodeDetail } from "../wire";

const share = ([used, total]: [number, number]) => (total > 0 ? used / total : 0);

/** The details of a node: amounts, pods as boxes, taints, devices, volumes. */
export function NodePanel({ name, state, close }: { name: string; state: ClusterState; close: () => void }) {
  const row = state.nodes.get(name);
  const version = row
    ? `${row.pods[0]}/${row.cpu[0]}/${row.memory[0]}/${row.cordoned}/${row.notReady}/${row.stopped}`
    : "gone";
  const { value: detail, error } = useAnswer<NodeDetail>(`nodes/${encodeURIComponent(name)}`, [version]);
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a narrow screen the panel is below the map.
    if (window.innerWidth < 900) panel.current?.scrollIntoView({ block: "start" });
  }, [name, detail === null]);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !(event.target as HTMLElement).closest(".search")) close();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
  return (
    <aside class="panel card" aria-label={`Node ${name}`} ref={panel}>
      <button class="close" onClick={close} aria-label="Close">
        ×
      </button>
      <h2>{name}</h2>
      {error && <Message text={error} bad />}
      {!detail && !error && <Loading text="Loading the node…" />}
      {detail && !row && <Message text="This node was deleted." bad />}
      {detail && <Detail detail={detail} state={state} />}
    </aside>
  );
}

function Detail({ detail, state }: { detail: NodeDetail; state: ClusterState }) {
  const extended = Object.entries(detail.extended ?? {});
  return (
    <>
      {detail.notReady && <p class="warn">Not ready: its pods are evicted after a while.</p>}
      {detail.stopped && !detail.notReady && <p class="warn">Stopped: in a while it is not ready.</p>}
      {detail.cordoned && <p class="warn">Cordoned: takes no new pods.</p>}
      <div class="meters">
        <Meter name="cpu" share={share(detail.cpu)} text={`${cores(detail.cpu[0])} of ${cores(detail.cpu[1])}`} />
        <Meter
          name="memory"
          share={share(detail.memory)}
          text={`${gib(detail.memory[0])} of ${gib(detail.memory[1])}`}
        />
        <Meter name="pods" share={share(detail.pods)} text={`${detail.pods[0]} of ${detail.pods[1]}`} />
        {extended.map(([key, amount]) => (
          <Meter key={key} name={key} share={share(amount)} text={`${amount[0]} of ${amount[1]}`} />
        ))}
      </div>
      {(detail.taints ?? []).length > 0 && (
        <p>
          Taints{" "}
          {(detail.taints ?? []).map((taint) => (
            <code key={taint}>{taint}</code>
          ))}
        </p>
      )}
      <h3>{plural(detail.list.length, "pod")}</h3>
      <PackedPods detail={detail} />
      <Devices detail={detail} />
      <Volumes detail={detail} />
      <details>
        <summary>Labels ({Object.keys(detail.labels).length})</summary>
        <ul class="labels">
          {Object.entries(detail.labels).map(([key, value]) => (
            <li key={key}>
              <code>
                {key}={value}
              </code>
            </li>
          ))}
        </ul>
      </details>
      <Actions detail={detail} state={state} />
    </>
  );
}

function Actions({ detail, state }: { detail: NodeDetail; state: ClusterState }) {
  const [message, setMessage] = useState("");
  const [isBad, setBad] = useState(false);
  const isDown = detail.stopped || detail.notReady;
  const switchNode = (what: string) =>
    tell("nodes", { names: [detail.name], what }).then(
      () => {
        setBad(false);
        setMessage(
          what === "stop"
            ? "Its kubelet is stopped; the node will soon be not ready."
            : "Its kubelet is running again.",
        );
      },
      (problem: Error) => {
        setBad(true);
        setMessage(problem.message);
      },
    );
  return (
    <>
      <p class="actions">
        <a class="button" href={href("whatif", "", { drain: detail.name })}>
          What if it is drained?
        </a>
        {state.writable && (
          <button onClick={() => switchNode(isDown ? "start" : "stop")}>
            {isDown ? "Start it" : "Stop this node"}
          </button>
        )}
      </p>
      <Message text={message} bad={isBad} />
    </>
  );
}

/** Pods as boxes, as large as their share of the node's cpu or memory, whichever is more. */
function PackedPods({ detail }: { detail: NodeDetail }) {
  if (detail.list.length === 0) return <p class="dim">Nothing runs here yet.</p>;
  const size = (pod: PodRow) => Math.max(share([pod.cpu, detail.cpu[1]]), share([pod.memory, detail.memory[1]]));
  return (
    <div class="packed">
      {detail.list.map((pod) => (
        <a
          key={pod.key}
          href={podHref(pod.key)}
          class={pod.leaving ? "box leaving" : pod.phase === "Running" ? "box running" : "box"}
          title={`${pod.key}: cpu ${cores(pod.cpu)}, memory ${gib(pod.memory)}, priority ${pod.priority}${pod.leaving ? ", leaving" : ""}`}
          ref={(box) => {
            if (box) box.style.flexGrow = String(Math.max(1, Math.round(size(pod) * 100)));
          }}
        >
          {pod.key.split("/")[1]}
        </a>
      ))}
    </div>
  );
}

function Devices({ detail }: { detail: NodeDetail }) {
  if (detail.devices.length === 0) return null;
  const used = detail.devices.filter((each) => each.usedBy.length > 0).length;
  return (
    <>
      <h3>
        Devices ({used} of {detail.devices.length} in use)
      </h3>
      <ul class="things">
        {detail.devices.map((each) => (
          <li key={`${each.driver}/${each.pool}/${each.name}`} class={each.usedBy.length ? "used" : ""}>
            <b>{each.name}</b>{" "}
            <span class="dim">
              {each.driver}
              {each.facts.length > 0 && ` · ${each.facts.join(" · ")}`}
            </span>
            {each.taints.map((taint) => (
              <code key={taint}>{taint}</code>
            ))}
            {each.usedBy.length > 0 ? (
              <>
                {" "}
                used by{" "}
                {each.usedBy.map((pod) => (
                  <PodLink key={pod} name={pod} />
                ))}
              </>
            ) : (
              <span class="dim"> free</span>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

function Volumes({ detail }: { detail: NodeDetail }) {
  if (detail.volumes.length === 0 && detail.volumeLimits.length === 0) return null;
  return (
    <>
      <h3>Volumes ({detail.volumes.length})</h3>
      <ul class="things">
        {detail.volumes.map((each) => (
          <li key={each.name} class="used">
            <b>{each.name}</b>{" "}
            <span class="dim">{[each.size, each.class, each.phase].filter(Boolean).join(" · ")}</span> used by{" "}
            {each.usedBy.map((pod) => (
              <PodLink key={pod} name={pod} />
            ))}
          </li>
        ))}
        {detail.volumeLimits.map((each) => (
          <li key={each.driver}>
            {each.driver} attaches at most {each.limit}
          </li>
        ))}
      </ul>
    </>
  );
}
