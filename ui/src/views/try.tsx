import { useState } from "preact/hooks";
import { tell } from "../api";
import { grouped, type ClusterState } from "../model";

const ZONE = "topology.kubernetes.io/zone";

const SAMPLES: Record<string, string> = {
  "A pod": `apiVersion: v1
kind: Pod
metadata:
  name: hello
spec:
  containers:
    - name: main
      image: hello
      resources:
        requests: {cpu: 500m, memory: 256Mi}
`,
  "A pod that is too big": `apiVersion: v1
kind: Pod
metadata:
  name: giant
spec:
  containers:
    - name: main
      image: giant
      resources:
        requests: {cpu: "512"}
`,
  "A deployment": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: web
          resources:
            requests: {cpu: 250m}
`,
};

/** Only for an embedded cluster: make things happen and watch. */
export function TryPage({ state }: { state: ClusterState }) {
  const [text, setText] = useState(SAMPLES["A pod"] ?? "");
  const [message, setMessage] = useState("");
  const [target, setTarget] = useState("default/Deployment/web");
  const [replicas, setReplicas] = useState("10");
  const report = (promise: Promise<unknown>, done: (value: never) => string) =>
    promise.then((value) => setMessage(done(value as never)), (problem: Error) => setMessage(problem.message));
  const create = () => report(tell<{ made: string[] }>("manifests", { text }), (value: { made: string[] }) => `Made ${value.made.join(", ")}.`);
  const scale = () => {
    const [namespace, kind, name] = target.split("/");
    return report(tell("scale", { namespace, kind, name, replicas: Number(replicas) }), () => `${target} has ${replicas} replicas now.`);
  };
  const zones = grouped(state.nodes.values(), ZONE).filter(([name]) => name !== "(none)");
  const switchZone = async (members: string[], what: string, zone: string) => {
    try {
      for (const name of members) await tell(`nodes/${encodeURIComponent(name)}/${what}`, {});
      setMessage(`Zone ${zone}: ${members.length} nodes, ${what}.`);
    } catch (problem) {
      setMessage((problem as Error).message);
    }
  };
  return (
    <section class="try">
      <h2>Create objects</h2>
      <p>
        {Object.entries(SAMPLES).map(([name, sample]) => (
          <button key={name} onClick={() => setText(sample)}>{name}</button>
        ))}
      </p>
      <label for="yaml">YAML</label>
      <textarea id="yaml" rows={16} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <p><button class="main" onClick={create}>Create</button></p>
      <h2>Scale a workload</h2>
      <p class="row">
        <label>Namespace/Kind/name <input value={target} onInput={(event) => setTarget(event.currentTarget.value)} /></label>{" "}
        <label>Replicas <input type="number" min="0" value={replicas} onInput={(event) => setReplicas(event.currentTarget.value)} /></label>{" "}
        <button onClick={scale}>Scale</button>
      </p>
      <h2>Stop a zone</h2>
      {zones.length === 0 && <p>The nodes have no zones.</p>}
      <ul class="zones">
        {zones.map(([zone, members]) => (
          <li key={zone}>
            {zone} ({members.length} nodes){" "}
            <button onClick={() => switchZone(members.map((row) => row.name), "stop", zone)}>Stop zone {zone}</button>{" "}
            <button onClick={() => switchZone(members.map((row) => row.name), "start", zone)}>Start zone {zone}</button>
          </li>
        ))}
      </ul>
      {message && <p role="status" class="message">{message}</p>}
    </section>
  );
}
