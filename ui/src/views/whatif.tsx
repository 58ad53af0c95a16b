import { useState } from "preact/hooks";
import { tell } from "../api";
import type { ClusterState } from "../model";
import { href, parseRoute } from "../route";

interface Move {
  pod: string;
  before: string;
  after: string;
}

interface WhatIf {
  summary: string;
  moved: Move[];
  new: Move[];
  placed: Move[];
  gone: string[];
  waiting: { pod: string; reason: string }[];
  blocked: { pod: string; reason: string }[];
  drain_order: string[];
  groups: {
    group: string;
    nodes_before: number;
    nodes_after: number;
    pods_before: number;
    pods_after: number;
    cpu_before: number;
    cpu_after: number;
    memory_before: number;
    memory_after: number;
  }[];
}

const percent = (share: number) => `${Math.round(share * 100)} %`;
const names = (text: string) => text.split(/[\s,]+/).filter(Boolean);

export function WhatIfPage({ state }: { state: ClusterState }) {
  const [drain, setDrain] = useState(parseRoute(location.hash).query.get("drain") ?? "");
  const [remove, setRemove] = useState("");
  const [add, setAdd] = useState("");
  const [scale, setScale] = useState("");
  const [answer, setAnswer] = useState<WhatIf | null>(null);
  const [message, setMessage] = useState("");
  const play = (event: Event) => {
    event.preventDefault();
    setMessage("Playing it in virtual time…");
    setAnswer(null);
    const scales = names(scale).map((each) => {
      const [target, count] = each.split("=");
      return [target, Number(count)];
    });
    tell<WhatIf>("whatif", { drain: names(drain), remove: names(remove), add: Number(add) || 0, scale: scales }).then(
      (value) => {
        setAnswer(value);
        setMessage("");
      },
      (problem: Error) => setMessage(problem.message),
    );
  };
  return (
    <section class="whatif">
      <h2>What if</h2>
      <form onSubmit={play}>
        <label>Drain nodes <input list="nodes" value={drain} onInput={(event) => setDrain(event.currentTarget.value)} placeholder="node-1, node-2" /></label>
        <label>Remove nodes <input value={remove} onInput={(event) => setRemove(event.currentTarget.value)} /></label>
        <label>Add nodes <input type="number" min="0" max="1000" value={add} onInput={(event) => setAdd(event.currentTarget.value)} /></label>
        <label>Scale <input value={scale} onInput={(event) => setScale(event.currentTarget.value)} placeholder="deploy/web=50" /></label>
        <button type="submit">Play</button>
        <datalist id="nodes">{[...state.nodes.keys()].slice(0, 500).map((name) => <option key={name} value={name} />)}</datalist>
      </form>
      {message && <p role="status">{message}</p>}
      {answer && <Answer answer={answer} />}
    </section>
  );
}

function Answer({ answer }: { answer: WhatIf }) {
  return (
    <div data-testid="answer">
      <p class="verdict">{answer.summary}.</p>
      {answer.drain_order.length > 1 && <p>Drained in this order: {answer.drain_order.join(", ")}.</p>}
      <Rows title="Would wait" rows={answer.waiting.map((each) => [each.pod, each.reason])} />
      <Rows title="Refused by budgets" rows={answer.blocked.map((each) => [each.pod, each.reason])} />
      <Rows title="Gone" rows={answer.gone.map((each) => [each, ""])} />
      <Rows title="Move" rows={answer.moved.map((each) => [each.pod, `${each.before} → ${each.after}`])} />
      <Rows title="Placed" rows={[...answer.placed, ...answer.new].map((each) => [each.pod, each.after])} />
      <h3>Before and after</h3>
      <div class="scroll" tabIndex={0} role="region" aria-label="Before and after">
        <table>
          <thead>
            <tr><th scope="col">Zone</th><th scope="col">Nodes</th><th scope="col">Pods</th><th scope="col">Cpu</th><th scope="col">Memory</th></tr>
          </thead>
          <tbody>
            {answer.groups.map((each) => (
              <tr key={each.group}>
                <td>{each.group}</td>
                <td>{each.nodes_before} → {each.nodes_after}</td>
                <td>{each.pods_before} → {each.pods_after}</td>
                <td>{percent(each.cpu_before)} → {percent(each.cpu_after)}</td>
                <td>{percent(each.memory_before)} → {percent(each.memory_after)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function Rows({ title, rows }: { title: string; rows: string[][] }) {
  if (rows.length === 0) return null;
  return (
    <>
      <h3>{title} ({rows.length})</h3>
      <ul>
        {rows.slice(0, 50).map(([pod, text]) => (
          <li key={pod}><a href={href("pod", pod ?? "")}>{pod}</a> {text}</li>
        ))}
      </ul>
    </>
  );
}
