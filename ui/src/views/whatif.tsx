import { useEffect, useState } from "preact/hooks";
import { ask, tell } from "../api";
import { percent, plural } from "../format";
import type { ClusterState } from "../model";
import { Empty, Loading, Message, PodLink, Table } from "../parts";
import { href, type Route } from "../route";
import type { WhatIf } from "../wire";

const FIELDS = ["drain", "remove", "add", "like", "scale"] as const;
type Field = (typeof FIELDS)[number];
type Plan = Record<Field, string>;

const names = (text: string) => text.split(/[\s,]+/).filter(Boolean);

export function WhatIfPage({ state, route }: { state: ClusterState; route: Route }) {
  const given = Object.fromEntries(FIELDS.map((field) => [field, route.query.get(field) ?? ""])) as Plan;
  const [plan, setPlan] = useState<Plan>(given);
  const [configuration, setConfiguration] = useState("");
  const [answer, setAnswer] = useState<WhatIf | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const change = (field: Field) => (event: { currentTarget: HTMLInputElement }) =>
    setPlan({ ...plan, [field]: event.currentTarget.value });
  const play = () => {
    setBusy(true);
    setError("");
    setAnswer(null);
    const scale = names(plan.scale).map((each) => {
      const [target = "", count] = each.split("=");
      return [target, Number(count)];
    });
    tell<WhatIf>("whatif", {
      drain: names(plan.drain),
      remove: names(plan.remove),
      add: Number(plan.add) || 0,
      like: plan.like.trim(),
      scale,
      configuration,
    })
      .then(setAnswer, (problem: Error) => setError(problem.message))
      .finally(() => setBusy(false));
  };
  const submit = (event: Event) => {
    event.preventDefault();
    history.replaceState(null, "", href("whatif", "", { ...plan, play: "1" }));
    play();
  };
  useEffect(() => {
    // A shared link runs the plan at once.
    if (route.query.get("play")) play();
  }, []);
  return (
    <section class="whatif">
      <h1>What if…</h1>
      <p class="dim">Played on a copy of the cluster in virtual time, by the same scheduler. Nothing is changed.</p>
      <div class="columns">
        <form onSubmit={submit} class="card">
          <label>
            Drain nodes{" "}
            <input list="nodes" value={plan.drain} onInput={change("drain")} placeholder="e.g. node-01, node-02" />
          </label>
          <label>
            Remove nodes{" "}
            <input list="nodes" value={plan.remove} onInput={change("remove")} placeholder="e.g. node-03" />
          </label>
          <label>
            Add nodes{" "}
            <input type="number" min="0" max="1000" value={plan.add} onInput={change("add")} placeholder="e.g. 2" />
          </label>
          <label>
            like <input list="nodes" value={plan.like} onInput={change("like")} placeholder="the largest" />
          </label>
          <label>
            Scale <input value={plan.scale} onInput={change("scale")} placeholder="e.g. deploy/web=50" />
          </label>
          <OtherConfiguration text={configuration} setText={setConfiguration} />
          <button type="submit" class="main" disabled={isBusy}>
            Play
          </button>
          <datalist id="nodes">
            {[...state.nodes.keys()].slice(0, 500).map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </form>
        <div>
          <Message text={error} bad />
          {isBusy && <Loading text="Running the plan in virtual time…" />}
          {answer && <Answer answer={answer} />}
          {!answer && !isBusy && !error && (
            <Empty title="Before and after are shown here.">
              Drain a node, add some, scale a workload, or give the scheduler another configuration.
            </Empty>
          )}
        </div>
      </div>
    </section>
  );
}

function OtherConfiguration({ text, setText }: { text: string; setText: (text: string) => void }) {
  const fill = () => {
    ask<{ text: string }>("configuration").then(
      (found) => setText(found.text),
      () => {},
    );
  };
  return (
    <details open={text !== ""}>
      <summary>Another configuration of the scheduler</summary>
      <textarea
        aria-label="Configuration"
        rows={10}
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        placeholder="KubeSchedulerConfiguration; empty: as it is"
      />
      <p>
        <button type="button" class="small" onClick={fill}>
          Begin with the present one
        </button>
      </p>
    </details>
  );
}

function Answer({ answer }: { answer: WhatIf }) {
  const isBad = answer.waiting.length > 0 || answer.blocked.length > 0 || answer.gone.length > 0;
  return (
    <div data-testid="answer">
      <p class={isBad ? "verdict pending" : "verdict fits"}>{answer.summary}.</p>
      {answer.drain_order.length > 1 && <p>Drained in this order: {answer.drain_order.join(", ")}.</p>}
      <h2>Before and after</h2>
      <Table label="Before and after" head={["Group", "Nodes", "Pods", "Cpu", "Memory"]}>
        {answer.groups.map((each) => (
          <tr key={each.group}>
            <td>{each.group}</td>
            <td class="number">{change(each.nodes_before, each.nodes_after)}</td>
            <td class="number">{change(each.pods_before, each.pods_after)}</td>
            <td>
              <Shares before={each.cpu_before} after={each.cpu_after} />
            </td>
            <td>
              <Shares before={each.memory_before} after={each.memory_after} />
            </td>
          </tr>
        ))}
      </Table>
      <Rows title="would wait" rows={answer.waiting.map((each) => [each.pod, each.reason])} />
      <Rows title="refused by budgets" rows={answer.blocked.map((each) => [each.pod, each.reason])} />
      <Rows title="deleted" rows={answer.gone.map((each) => [each, ""])} />
      <Rows title="would move" rows={answer.moved.map((each) => [each.pod, `${each.before} → ${each.after}`])} />
      <Rows
        title="would be placed"
        rows={[...answer.placed, ...answer.new].map((each) => [each.pod, `→ ${each.after}`])}
      />
    </div>
  );
}

const change = (before: number, after: number) => (before === after ? String(before) : `${before} → ${after}`);

/** Two bars, one above the other. */
function Shares({ before, after }: { before: number; after: number }) {
  return (
    <div class="shares">
      <svg class="bar" viewBox="0 0 100 18" preserveAspectRatio="none" aria-hidden="true">
        <rect class="bar-back" width="100" height="8" />
        <rect class="bar-pale" width={Math.min(before, 1) * 100} height="8" />
        <rect class="bar-back" y="10" width="100" height="8" />
        <rect class="bar-front" y="10" width={Math.min(after, 1) * 100} height="8" />
      </svg>
      <span>
        {percent(before)} → {percent(after)}
      </span>
    </div>
  );
}

function Rows({ title, rows }: { title: string; rows: string[][] }) {
  if (rows.length === 0) return null;
  return (
    <>
      <h3>
        {plural(rows.length, "pod")} {title}
      </h3>
      <ul class="moves">
        {rows.slice(0, 50).map(([pod = "", text]) => (
          <li key={pod}>
            <PodLink name={pod} /> <span class="dim">{text}</span>
          </li>
        ))}
      </ul>
      {rows.length > 50 && <p class="dim">and {rows.length - 50} more</p>}
    </>
  );
}
