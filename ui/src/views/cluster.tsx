import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, tell } from "../api";
import { cellAt, draw, layOut, rampColour } from "../map";
import { cores, fullness, gib, grouped, groupingLabels, type ClusterState, type NodeRow, type PodRow } from "../model";
import { href, type Route } from "../route";

interface Verdicts {
  fits: string[];
  rejected: Record<string, string>;
}

const RESOURCES = ["cpu", "memory", "pods"];

export function ClusterPage({ state, route }: { state: ClusterState; route: Route }) {
  const labels = useMemo(() => groupingLabels(state.nodes.values()), [state.nodes.size]);
  const group = route.query.get("group") ?? labels.find((label) => label.endsWith("/zone")) ?? "";
  const colour = route.query.get("colour") ?? "cpu";
  const pod = route.query.get("pod") ?? "";
  const selector = route.query.get("selector") ?? "";
  const node = route.query.get("node") ?? "";
  const verdicts = useVerdicts(pod);
  const selected = useSelected(selector, state.counts.placed);
  const extended = useMemo(() => extendedResources(state), [state.nodes.size]);
  const go = (change: Record<string, string>) => {
    location.hash = href("cluster", "", { group, colour, pod, selector, node, ...change });
  };
  const paint = (row: NodeRow, dark: boolean): string => {
    if (verdicts) {
      if (verdicts.fits.includes(row.name)) return dark ? "#3fb950" : "#2da44e";
      return dark ? "#5a3a3a" : "#f0c9c4";
    }
    if (selected) {
      const most = Math.max(1, ...Object.values(selected));
      return rampColour(((selected[row.name] ?? 0) / most) * 0.88, dark);
    }
    return rampColour(fullness(row, colour), dark);
  };
  return (
    <section class="cluster">
      <div class="controls">
        <label>
          Group by{" "}
          <select value={group} onChange={(event) => go({ group: event.currentTarget.value })}>
            <option value="">nothing</option>
            {labels.map((label) => (
              <option key={label} value={label}>{label}</option>
            ))}
          </select>
        </label>
        <label>
          Colour by{" "}
          <select value={colour} onChange={(event) => go({ colour: event.currentTarget.value, pod: "", selector: "" })}>
            {[...RESOURCES, ...extended].map((each) => (
              <option key={each} value={each}>{each}</option>
            ))}
          </select>
        </label>
        <label>
          Pods of{" "}
          <input
            placeholder="app=web, or part of a name"
            value={selector}
            onChange={(event) => go({ selector: event.currentTarget.value, pod: "" })}
          />
        </label>
        {pod && (
          <span>
            Green: <a href={href("pod", pod)}>{pod}</a> fits there.{" "}
            <button onClick={() => go({ pod: "" })}>Clear</button>
          </span>
        )}
        <Legend />
      </div>
      <NodeMap state={state} group={group} marked={node} paint={paint} verdicts={verdicts} open={(name) => go({ node: name })} />
      {node && <NodePanel key={node} name={node} state={state} close={() => go({ node: "" })} />}
    </section>
  );
}

function useVerdicts(pod: string): Verdicts | null {
  const [verdicts, setVerdicts] = useState<Verdicts | null>(null);
  useEffect(() => {
    setVerdicts(null);
    if (pod) ask<Verdicts>(`verdicts/${encodePath(pod)}`).then(setVerdicts, () => setVerdicts(null));
  }, [pod]);
  return pod ? verdicts : null;
}

function useSelected(selector: string, version: number): Record<string, number> | null {
  const [counts, setCounts] = useState<Record<string, number> | null>(null);
  useEffect(() => {
    if (selector) ask<Record<string, number>>(`selected?text=${encodeURIComponent(selector)}`).then(setCounts, () => setCounts(null));
    else setCounts(null);
  }, [selector, version]);
  return selector ? counts : null;
}

function extendedResources(state: ClusterState): string[] {
  const found = new Set<string>();
  for (const row of state.nodes.values()) for (const name of Object.keys(row.extended ?? {})) found.add(name);
  return [...found].sort();
}

export function encodePath(name: string): string {
  return name.split("/").map(encodeURIComponent).join("/");
}

function Legend() {
  const dark = useDark();
  return (
    <span class="legend" aria-hidden="true">
      empty
      {[0, 0.2, 0.4, 0.6, 0.8, 0.93, 1].map((share) => (
        <svg key={share} width="14" height="12"><rect width="14" height="12" fill={rampColour(share, dark)} /></svg>
      ))}
      full
    </span>
  );
}

export function useDark(): boolean {
  const query = useMemo(() => window.matchMedia("(prefers-color-scheme: dark)"), []);
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const changed = () => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, [query]);
  return dark;
}

function NodeMap(props: {
  state: ClusterState;
  group: string;
  marked: string;
  paint: (row: NodeRow, dark: boolean) => string;
  verdicts: Verdicts | null;
  open: (name: string) => void;
}) {
  const { state, group, marked, paint, verdicts } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<{ node: NodeRow; x: number; y: number } | null>(null);
  const dark = useDark();
  useLayoutEffect(() => {
    const measure = () => setWidth(frame.current?.clientWidth ?? 0);
    measure();
    window.addEventListener("resize", measure);
    return () => window.removeEventListener("resize", measure);
  }, []);
  const layout = useMemo(
    () => layOut(grouped(state.nodes.values(), group), Math.max(width, 200)),
    [state.version, group, width],
  );
  useLayoutEffect(() => {
    if (canvas.current && width) draw(canvas.current, layout, width, (row) => paint(row, dark), marked, dark);
  });
  const at = (event: MouseEvent) => cellAt(layout, event.offsetX, event.offsetY);
  const step = (event: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1 };
    const move = moves[event.key];
    if (move === undefined) return;
    const names = layout.cells.map((cell) => cell.node.name);
    const place = names.indexOf(marked);
    const next = names[Math.max(0, Math.min(names.length - 1, place + move))];
    if (next) props.open(next);
    event.preventDefault();
  };
  return (
    <div class="map" ref={frame}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`Map of ${state.nodes.size} nodes; left and right move from node to node`}
        onMouseMove={(event) => {
          const cell = at(event);
          setHover(cell ? { node: cell.node, x: event.offsetX, y: event.offsetY } : null);
        }}
        onMouseLeave={() => setHover(null)}
        onClick={(event) => {
          const cell = at(event);
          if (cell) props.open(cell.node.name);
        }}
        onKeyDown={step}
      />
      {hover && (
        <div class="tip" ref={(tip) => place(tip, hover.x, hover.y, width)}>
          <b>{hover.node.name}</b>
          <div>cpu {cores(hover.node.cpu[0])} of {cores(hover.node.cpu[1])}</div>
          <div>memory {gib(hover.node.memory[0])} of {gib(hover.node.memory[1])}</div>
          <div>pods {hover.node.pods[0]} of {hover.node.pods[1]}</div>
          {hover.node.cordoned && <div>cordoned</div>}
          {hover.node.notReady && <div>not ready</div>}
          {verdicts?.rejected[hover.node.name] && <div class="no">{verdicts.rejected[hover.node.name]}</div>}
        </div>
      )}
    </div>
  );
}

function place(tip: HTMLElement | null, x: number, y: number, width: number): void {
  if (!tip) return;
  tip.style.left = `${Math.min(x + 14, Math.max(0, width - 220))}px`;
  tip.style.top = `${y + 14}px`;
}

interface NodeDetail extends NodeRow {
  list: PodRow[];
}

function NodePanel({ name, state, close }: { name: string; state: ClusterState; close: () => void }) {
  const [detail, setDetail] = useState<NodeDetail | null>(null);
  const [error, setError] = useState("");
  const row = state.nodes.get(name);
  const version = row ? `${row.pods[0]}/${row.cpu[0]}/${row.cordoned}/${row.notReady}` : "";
  useEffect(() => {
    ask<NodeDetail>(`nodes/${encodeURIComponent(name)}`).then(setDetail, (problem: Error) => setError(problem.message));
  }, [name, version]);
  const switchNode = (what: string) =>
    tell(`nodes/${encodeURIComponent(name)}/${what}`, {}).then(() => setError(""), (problem: Error) => setError(problem.message));
  if (!detail) return <aside class="panel">{error || "…"}</aside>;
  return (
    <aside class="panel" aria-label={`Node ${name}`}>
      <button class="close" onClick={close} aria-label="Close">×</button>
      <h2>{name}</h2>
      <p>
        cpu {cores(detail.cpu[0])} of {cores(detail.cpu[1])} · memory {gib(detail.memory[0])} of {gib(detail.memory[1])} · pods{" "}
        {detail.pods[0]} of {detail.pods[1]}
        {Object.entries(detail.extended ?? {}).map(([key, amount]) => (
          <span key={key}> · {key} {amount[0]} of {amount[1]}</span>
        ))}
      </p>
      {detail.cordoned && <p class="warn">Cordoned: takes no new pods.</p>}
      {detail.notReady && <p class="warn">Not ready.</p>}
      {(detail.taints ?? []).length > 0 && <p>Taints: {(detail.taints ?? []).map((taint) => <code key={taint}>{taint}</code>)}</p>}
      <PackedPods detail={detail} />
      <details>
        <summary>Labels</summary>
        <ul class="labels">
          {Object.entries(detail.labels).map(([key, value]) => <li key={key}><code>{key}={value}</code></li>)}
        </ul>
      </details>
      <p>
        <a href={href("whatif", "", { drain: name })}>What if it is drained?</a>
      </p>
      {state.writable && (
        <p>
          <button onClick={() => switchNode("stop")}>Stop this node</button>{" "}
          <button onClick={() => switchNode("start")}>Start it</button>
        </p>
      )}
      {error && <p class="warn" role="alert">{error}</p>}
    </aside>
  );
}

/** Pods as boxes, as wide as their share of the node's cpu. */
function PackedPods({ detail }: { detail: NodeDetail }) {
  const total = Math.max(detail.cpu[1], 1);
  return (
    <div class="packed">
      {detail.list.map((pod) => (
        <a
          key={pod.key}
          href={href("pod", pod.key)}
          class={pod.leaving ? "box leaving" : "box"}
          title={`${pod.key}: cpu ${cores(pod.cpu)}, memory ${gib(pod.memory)}, priority ${pod.priority}`}
          ref={(box) => {
            if (box) box.style.flexBasis = `${Math.max((pod.cpu / total) * 100, 6)}%`;
          }}
        >
          {pod.key.split("/")[1]}
        </a>
      ))}
      {detail.list.length === 0 && <p>No pods.</p>}
    </div>
  );
}
