import { useEffect, useState } from "preact/hooks";
import { ask } from "../api";
import { Chart } from "../charts";
import { folded } from "../folding";
import { clockTime, dateTime, duration, micro } from "../format";
import type { ClusterState, Decision } from "../model";
import { Empty, Mark, NodeLink, PodLink, Reason, Table } from "../parts";
import { href, type Route } from "../route";
import type { DecisionPage } from "../wire";

const SHOWN = 100;

/** The live view: charts and decisions, or one recorded decision at a time. */
export function LivePage({ state, route }: { state: ClusterState; route: Route }) {
  const chosen = Number(route.query.get("decision") ?? "") || 0;
  const newest = state.decisions[state.decisions.length - 1]?.number ?? 0;
  const go = (number: number) => {
    location.hash = href("live", "", { decision: number ? String(number) : "" });
  };
  return (
    <section class="live">
      <h1 class="unseen">{state.outline ? "Decisions" : "Live"}</h1>
      {!state.outline && <Charts state={state} />}
      <Recorder state={state} chosen={chosen} newest={newest} go={go} />
    </section>
  );
}

function Charts({ state }: { state: ClusterState }) {
  const { samples } = state;
  const times = samples.map((each) => each.at / 1000);
  const last = samples[samples.length - 1];
  const shown = { times, version: state.version };
  return (
    <div class="charts">
      <Chart
        {...shown}
        title="Pods placed per second"
        now={String(Math.round(last?.rate ?? 0))}
        lines={[{ name: "rate", values: samples.map((each) => each.rate) }]}
      />
      <Chart
        {...shown}
        title="Scheduling latency, ms"
        now={last?.high ? `${duration(last.median)} · ${duration(last.high)}` : "–"}
        lines={[
          { name: "median", values: samples.map((each) => each.median) },
          { name: "99th percentile", values: samples.map((each) => each.high) },
        ]}
      />
      {state.queue ? (
        <Chart
          {...shown}
          title="Pods in the queue"
          now={String(state.counts.waiting)}
          lines={[
            { name: "ready", values: samples.map((each) => each.queue.active) },
            { name: "backoff", values: samples.map((each) => each.queue.backoff) },
            { name: "unschedulable", values: samples.map((each) => each.queue.unschedulable + each.queue.gated) },
          ]}
        />
      ) : (
        <Chart
          {...shown}
          title="Waiting pods"
          now={String(state.counts.waiting)}
          lines={[{ name: "waiting", values: samples.map((each) => each.waiting) }]}
        />
      )}
    </div>
  );
}

/** The last ten thousand decisions, with buttons to pause and step. */
function Recorder(props: { state: ClusterState; chosen: number; newest: number; go: (number: number) => void }) {
  const { state, chosen, newest, go } = props;
  const [kept, setKept] = useState<DecisionPage | null>(null);
  const isPaused = chosen > 0;
  useEffect(() => {
    if (!isPaused) {
      setKept(null);
      return;
    }
    let isCurrent = true;
    ask<DecisionPage>(`decisions?before=${chosen}`).then(
      (answer) => isCurrent && setKept(answer),
      () => {},
    );
    return () => {
      isCurrent = false;
    };
  }, [chosen]);
  const live = state.decisions.slice(-SHOWN);
  const shown = [...(isPaused ? (kept?.decisions ?? state.decisions.filter((each) => each.number <= chosen)) : live)]
    .slice(-SHOWN)
    .reverse();
  const first = kept?.first ?? 1;
  const last = Math.max(kept?.last ?? 0, newest, chosen);
  const step = (by: number) => go(Math.max(first, Math.min(last, chosen + by)));
  const current = isPaused ? shown[0] : undefined;
  const { totals } = state;
  return (
    <>
      <div class="controls">
        {isPaused ? (
          <button class="main" onClick={() => go(0)}>
            Go on
          </button>
        ) : (
          <button class="main" onClick={() => go(newest)} disabled={!newest}>
            Pause
          </button>
        )}
        <button
          onClick={() => (isPaused ? step(-1) : go(Math.max(1, newest - 1)))}
          disabled={isPaused ? chosen <= first : newest < 2}
        >
          Step back
        </button>
        <button onClick={() => step(1)} disabled={!isPaused || chosen >= last}>
          Step forward
        </button>
        {isPaused && last > first && (
          <label class="grow">
            <span>
              Decision {chosen} of {last}
            </span>
            <input
              type="range"
              min={first}
              max={last}
              value={chosen}
              onChange={(event) => go(Number(event.currentTarget.value))}
            />
          </label>
        )}
        <span class="dim">
          {totals.placed.toLocaleString("en")} placed, {totals.failed.toLocaleString("en")} times no node,{" "}
          {totals.preempted.toLocaleString("en")} preempted
        </span>
      </div>
      {current && <Closer decision={current} />}
      <Decisions decisions={shown} state={state} chosen={current?.number ?? 0} go={go} />
    </>
  );
}

/** The details of one decision: its duration and the best nodes. */
function Closer({ decision }: { decision: Decision }) {
  const best = decision.best ?? [];
  const top = Math.max(1, ...best.map(([, total]) => total));
  return (
    <div class="card closer" data-testid="decision">
      <p>
        <Mark what={decision.what} /> <PodLink name={decision.pod} />{" "}
        {decision.node && (
          <>
            on <NodeLink name={decision.node} />
          </>
        )}{" "}
        <span class="dim">
          {clockTime(decision.at)}
          {decision.attempt !== undefined && `, attempt ${decision.attempt}`}
          {decision.took !== undefined && `, took ${micro(decision.took)}`}
        </span>
      </p>
      {decision.reason && <p>{decision.reason}</p>}
      {best.length > 0 && (
        <>
          <h3>Best nodes at that moment</h3>
          <ul class="ranking">
            {best.map(([node, total]) => (
              <li key={node}>
                <NodeLink name={node} />
                <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                  <rect class="bar-back" width="100" height="8" />
                  <rect class="bar-front" width={(total / top) * 100} height="8" />
                </svg>
                <b>{total}</b>
              </li>
            ))}
          </ul>
        </>
      )}
      {decision.what === "placed" && best.length === 0 && decision.took !== undefined && (
        <p class="dim">The scores are not stored: one node fitted, or many pods were placed in a short time.</p>
      )}
    </div>
  );
}

function Decisions(props: {
  decisions: Decision[];
  state: ClusterState;
  chosen: number;
  go: (number: number) => void;
}) {
  const { decisions, state, chosen, go } = props;
  if (decisions.length === 0) {
    return (
      <Empty title="There are no decisions yet.">
        {state.outline ? "Move the slider on." : "The first attempt to place a pod appears here."}
      </Empty>
    );
  }
  return (
    <Table label="Decisions" head={["Time", "Decision", "Pod", "Where, or why not", ""]}>
      {folded(decisions).map(({ decision: each, times }) => (
        <tr key={each.number} class={each.number === chosen ? "chosen" : ""}>
          <td class="number">{state.outline ? dateTime(each.at) : clockTime(each.at)}</td>
          <td>
            <Mark what={each.what} />
            {times > 1 && <span class="dim" title={`${times} attempts`}>{` ×${times}`}</span>}
          </td>
          <td>
            <PodLink name={each.pod} />
          </td>
          <td class="wide">
            {each.node && <NodeLink name={each.node} />} {each.reason && <Reason text={each.reason} />}
          </td>
          <td>
            {each.took !== undefined && (
              <button class="small" onClick={() => go(each.number)} aria-label={`Details of decision ${each.number}`}>
                Details
              </button>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}
