import { useEffect, useState } from "preact/hooks";
import { ask, tell } from "../api";
import { plural } from "../format";
import { type ClusterState, grouped } from "../model";
import { Message } from "../parts";
import { href } from "../route";
import { CONFIGURATIONS, OBJECTS } from "../samples";
import type { ScalableWorkload } from "../wire";

const ZONE = "topology.kubernetes.io/zone";

/** The result of a request: a text, and whether it is an error. */
interface Outcome {
  text: string;
  isBad: boolean;
}

const NOTHING: Outcome = { text: "", isBad: false };

function useOutcome(): [Outcome, <T>(promise: Promise<T>, done: (value: T) => string) => Promise<void>] {
  const [outcome, setOutcome] = useState(NOTHING);
  const report = <T,>(promise: Promise<T>, done: (value: T) => string) =>
    promise.then(
      (value) => setOutcome({ text: done(value), isBad: false }),
      (problem: Error) => setOutcome({ text: problem.message, isBad: true }),
    );
  return [outcome, report];
}

/** Changes to an embedded cluster. */
export function TryPage({ state }: { state: ClusterState }) {
  return (
    <section class="try">
      <h1>Try it</h1>
      <p class="dim">
        This cluster is yours: whatever you do here happens in one process on this machine, and is over with it.
      </p>
      <div class="columns even">
        <Create />
        <Configure />
        <Scale />
        <Zones state={state} />
        <OneNode state={state} />
      </div>
    </section>
  );
}

function Create() {
  const [text, setText] = useState(OBJECTS["A pod"] ?? "");
  const [outcome, report] = useOutcome();
  const create = () =>
    report(tell<{ made: string[] }>("manifests", { text }), (value) => `Created ${value.made.join(", ")}.`);
  return (
    <div class="card">
      <h2>Create objects</h2>
      <p class="picks">
        {Object.entries(OBJECTS).map(([name, sample]) => (
          <button key={name} class="small" onClick={() => setText(sample)}>
            {name}
          </button>
        ))}
      </p>
      <label for="yaml" class="unseen">
        YAML
      </label>
      <textarea
        id="yaml"
        rows={14}
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <p class="actions">
        <button class="main" onClick={create}>
          Create
        </button>{" "}
        <a href={href("live")}>Watch it being placed</a>
      </p>
      <Message text={outcome.text} bad={outcome.isBad} />
    </div>
  );
}

function Configure() {
  const [text, setText] = useState("");
  const [outcome, report] = useOutcome();
  const [isBusy, setBusy] = useState(false);
  const present = () =>
    ask<{ text: string }>("configuration").then(
      (found) => setText(found.text),
      () => {},
    );
  useEffect(() => {
    // Text that the user has typed before the answer arrives stays.
    ask<{ text: string }>("configuration").then(
      (found) => setText((typed) => typed || found.text),
      () => {},
    );
  }, []);
  const configure = () => {
    setBusy(true);
    void report(
      tell("configuration", { text }),
      () => "The scheduler goes on with this configuration. The next pods follow it.",
    ).then(() => setBusy(false));
  };
  return (
    <div class="card">
      <h2>Configure the scheduler</h2>
      <p class="picks">
        {Object.entries(CONFIGURATIONS).map(([name, sample]) => (
          <button key={name} class="small" onClick={() => setText(sample)}>
            {name}
          </button>
        ))}
        <button class="small" onClick={present}>
          As it is now
        </button>
      </p>
      <label for="configuration" class="unseen">
        Configuration
      </label>
      <textarea
        id="configuration"
        rows={14}
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <p class="actions">
        <button class="main" onClick={configure} disabled={isBusy}>
          Configure
        </button>
      </p>
      <Message text={outcome.text} bad={outcome.isBad} />
    </div>
  );
}

function Scale() {
  const [workloads, setWorkloads] = useState<ScalableWorkload[]>([]);
  const [chosen, setChosen] = useState(0);
  const [replicas, setReplicas] = useState("");
  const [outcome, report] = useOutcome();
  const refresh = () => ask<ScalableWorkload[]>("workloads").then(setWorkloads, () => {});
  useEffect(() => {
    void refresh();
  }, []);
  const target = workloads[chosen];
  const scale = () => {
    if (!target) return;
    const count = Number(replicas || target.replicas);
    void report(
      tell("scale", { ...target, replicas: count }),
      () => `${target.name} has ${plural(count, "replica")} now.`,
    ).then(refresh);
  };
  return (
    <div class="card">
      <h2>Scale a workload</h2>
      {workloads.length === 0 ? (
        <p class="dim">
          There is no deployment or stateful set yet. Create one first.{" "}
          <button class="small" onClick={refresh}>
            Look again
          </button>
        </p>
      ) : (
        <p class="actions">
          <label>
            Workload{" "}
            <select
              value={String(chosen)}
              onChange={(event) => setChosen(Number(event.currentTarget.value))}
              onFocus={refresh}
            >
              {workloads.map((each, place) => (
                <option key={place} value={String(place)}>
                  {each.namespace}/{each.name} ({each.kind}, {each.replicas})
                </option>
              ))}
            </select>
          </label>
          <label>
            Replicas{" "}
            <input
              type="number"
              min="0"
              max="10000"
              value={replicas}
              placeholder={String(target?.replicas ?? "")}
              onInput={(event) => setReplicas(event.currentTarget.value)}
            />
          </label>
          <button class="main" onClick={scale}>
            Scale
          </button>
        </p>
      )}
      <Message text={outcome.text} bad={outcome.isBad} />
    </div>
  );
}

function Zones({ state }: { state: ClusterState }) {
  const [outcome, report] = useOutcome();
  const zones = grouped(state.nodes.values(), ZONE).filter(([name]) => name !== "(none)");
  const act = (zone: string, members: string[], what: string) =>
    report(tell("nodes", { names: members, what }), () =>
      what === "stop"
        ? `Zone ${zone} stopped: ${plural(members.length, "node")}. In a moment they are not ready, and their pods move.`
        : `Zone ${zone} started: ${plural(members.length, "node")}.`,
    );
  return (
    <div class="card">
      <h2>Stop a zone</h2>
      {zones.length === 0 && <p class="dim">The nodes have no zones.</p>}
      <ul class="zones">
        {zones.map(([zone, members]) => {
          const down = members
            .map((name) => state.nodes.get(name))
            .filter((row) => row?.notReady || row?.stopped).length;
          return (
            <li key={zone}>
              <span>
                <b>{zone}</b> {plural(members.length, "node")}
                {down > 0 && <span class="warn">, {down} down</span>}
              </span>
              <button onClick={() => act(zone, members, "stop")}>
                Stop<span class="unseen"> zone {zone}</span>
              </button>
              <button onClick={() => act(zone, members, "start")}>
                Start<span class="unseen"> zone {zone}</span>
              </button>
            </li>
          );
        })}
      </ul>
      <Message text={outcome.text} bad={outcome.isBad} />
    </div>
  );
}

const DONE: Record<string, string> = {
  cordon: "is cordoned: it takes no new pods.",
  uncordon: "takes new pods again.",
  delete: "is deleted. Its pods are removed in a moment, and their workloads replace them.",
};

function OneNode({ state }: { state: ClusterState }) {
  const [name, setName] = useState("");
  const [outcome, report] = useOutcome();
  const act = (what: string) =>
    report(tell("nodes", { names: [name.trim()], what }), () => `${name.trim()} ${DONE[what]}`);
  return (
    <div class="card">
      <h2>Change a node</h2>
      <p class="actions">
        <label>
          Node{" "}
          <input
            list="node-names"
            value={name}
            placeholder="name"
            autocomplete="off"
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <datalist id="node-names">
          {[...state.nodes.keys()].slice(0, 500).map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
        {["cordon", "uncordon", "delete"].map((what) => (
          <button key={what} onClick={() => act(what)} disabled={!name.trim()}>
            {what[0]?.toUpperCase() + what.slice(1)}
          </button>
        ))}
      </p>
      <Message text={outcome.text} bad={outcome.isBad} />
    </div>
  );
}
