import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { cores, gib, percent, plural } from "../format";
import { useAnswer, useDark, usePaced } from "../hooks";
import { type Block, draw, fitColour, layOut, neighbour, nodeAt, placeOf, rampColour, STEPS } from "../map";
import {
  amountOf,
  type ClusterState,
  extendedResources,
  fullness,
  grouped,
  groupingLabels,
  type NodeRow,
  totalFullness,
} from "../model";
import { Empty, Loading, Message, PodLink, Tile } from "../parts";
import { encodePath, href, type Route, replaceRoute } from "../route";
import type { PodVerdicts } from "../wire";
import { NodePanel } from "./node";

/** How nodes are coloured: by usage, by the pods of a selector, or by the verdicts about a pod. */
export interface Colouring {
  resource: string;
  fits: Set<string> | null;
  rejected: Record<string, string>;
  selected: Record<string, number> | null;
  most: number;
  /** A few letters about some nodes, beside their share. */
  notes?: Record<string, string>;
}

export function ClusterPage({ state, route }: { state: ClusterState; route: Route }) {
  const labels = useMemo(() => groupingLabels(state.nodes.values()), [state.structure]);
  const extended = useMemo(() => extendedResources(state.nodes.values()), [state.structure]);
  const group = route.query.get("group") ?? labels.find((label) => label.endsWith("/zone")) ?? "";
  const resource = route.query.get("colour") ?? "cpu";
  const pod = route.query.get("pod") ?? "";
  const selector = route.query.get("selector") ?? "";
  const node = route.query.get("node") ?? "";
  const verdicts = useAnswer<PodVerdicts>(pod && `verdicts/${encodePath(pod)}`);
  const placed = usePaced(state.version, 1000);
  const selected = useAnswer<Record<string, number>>(selector && `selected?text=${encodeURIComponent(selector)}`, [
    placed,
  ]);
  const colouring: Colouring = useMemo(
    () => ({
      resource,
      fits: verdicts.value ? new Set(verdicts.value.fits) : null,
      rejected: verdicts.value?.rejected ?? {},
      selected: selected.value,
      most: Math.max(1, ...Object.values(selected.value ?? {})),
    }),
    [resource, verdicts.value, selected.value],
  );
  const address = (change: Record<string, string>) => {
    const named = { group: route.query.get("group") ?? "", colour: resource === "cpu" ? "" : resource };
    return href("cluster", "", { ...named, pod, selector, node, ...change });
  };
  const go = (change: Record<string, string>) => {
    location.hash = address(change);
  };
  if (state.nodes.size === 0) return <NoNodes state={state} />;
  return (
    <section class="cluster">
      <h1 class="unseen">Cluster</h1>
      <Tiles state={state} />
      <div class="controls">
        <label>
          <span>Group by</span>
          <select value={group} onChange={(event) => go({ group: event.currentTarget.value })}>
            <option value="">nothing</option>
            {labels.map((label) => (
              <option key={label} value={label}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>Colour by</span>
          <select
            value={resource}
            onChange={(event) => go({ colour: event.currentTarget.value, pod: "", selector: "" })}
          >
            {["cpu", "memory", "pods", ...extended].map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>or by pods of</span>
          <input
            placeholder="app=web, or a name"
            value={selector}
            onInput={(event) => replaceRoute(address({ selector: event.currentTarget.value, pod: "" }))}
            aria-invalid={selected.error ? "true" : undefined}
          />
        </label>
        <Legend colouring={colouring} state={state} />
      </div>
      {selector && <Message text={selected.error} bad />}
      {pod && (
        <p class="message">
          {verdicts.error ||
            (verdicts.value ? (
              <>
                {plural(verdicts.value.fits.length, "node")} would take <PodLink name={pod} />; hover over the others to
                read why not.
              </>
            ) : (
              "Computing the verdicts of its filters…"
            ))}{" "}
          <button class="small" onClick={() => go({ pod: "" })}>
            Show fullness again
          </button>
        </p>
      )}
      <NodeMap state={state} group={group} marked={node} colouring={colouring} open={(name) => go({ node: name })}>
        {node && <NodePanel key={node} name={node} state={state} close={() => go({ node: "" })} />}
      </NodeMap>
    </section>
  );
}

function NoNodes({ state }: { state: ClusterState }) {
  if (state.limits?.unknown.includes("Node"))
    return (
      <Empty title="You may not read nodes.">
        What waits is under <a href={href("queue")}>Queue</a>, with what the scheduler said of it.
      </Empty>
    );
  if (!state.isConnected) return <Loading text="Reading the cluster…" />;
  return (
    <Empty title="There are no nodes.">
      {state.writable ? (
        <>
          Create some under <a href={href("try")}>Try it</a>, or with kubectl.
        </>
      ) : state.outline ? (
        "At this moment there were none; move the slider."
      ) : (
        "As soon as one joins, it is shown here."
      )}
    </Empty>
  );
}

function Tiles({ state }: { state: ClusterState }) {
  const rows = [...state.nodes.values()];
  const notReady = rows.filter((row) => row.notReady).length;
  const stopped = rows.filter((row) => row.stopped && !row.notReady).length;
  const cpu = totalFullness(rows, "cpu");
  const memory = totalFullness(rows, "memory");
  const { counts } = state;
  return (
    <div class="tiles" data-testid="counts">
      <Tile value={counts.nodes.toLocaleString("en")} label={counts.nodes === 1 ? "node" : "nodes"} />
      {notReady > 0 && <Tile value={notReady.toLocaleString("en")} label="not ready" tone="bad" />}
      {stopped > 0 && <Tile value={stopped.toLocaleString("en")} label="stopped" tone="bad" />}
      <Tile value={counts.placed.toLocaleString("en")} label="pods placed" />
      <Tile
        value={counts.waiting.toLocaleString("en")}
        label={counts.waiting === 1 ? "pod pending" : "pods pending"}
        tone={counts.waiting ? "warm" : ""}
        href={href("queue")}
      />
      {cpu !== null && <Tile value={percent(cpu)} label="of cpu requested" />}
      {memory !== null && <Tile value={percent(memory)} label="of memory requested" />}
    </div>
  );
}

export function Legend({ colouring, state }: { colouring: Colouring; state: ClusterState }) {
  const dark = useDark();
  const hasSizes = useMemo(
    () => new Set([...state.nodes.values()].map((row) => row.cpu[1])).size > 1,
    [state.structure],
  );
  const swatch = (colour: string, text: string) => (
    <span key={text} class="key">
      <svg width="14" height="14" aria-hidden="true">
        <rect width="14" height="14" rx="3" fill={colour} />
      </svg>
      {text}
    </span>
  );
  if (colouring.fits)
    return (
      <span class="legend">
        {swatch(fitColour(true, dark), "fits")}
        {swatch(fitColour(false, dark), "does not")}
      </span>
    );
  const names = colouring.selected ? ["0", `${colouring.most} pods`] : ["empty", "full"];
  return (
    <span class="legend">
      {names[0]}
      <svg class="ramp" width="126" height="14" aria-hidden="true">
        {STEPS.map((share, place) => (
          <rect key={share} x={place * 18} width="17" height="14" rx="2" fill={rampColour(share, dark)} />
        ))}
      </svg>
      {names[1]}
      <span class="key">
        <svg width="14" height="14" class="sign cordoned" aria-hidden="true">
          <rect x="1" y="1" width="12" height="12" />
          <path d="M1 13 13 1" />
        </svg>
        cordoned
      </span>
      <span class="key">
        <svg width="14" height="14" class="sign not-ready" aria-hidden="true">
          <rect x="1" y="1" width="12" height="12" />
          <path d="M1 13 13 1M1 1 13 13" />
        </svg>
        not ready
      </span>
      {hasSizes && (
        <span class="key">
          <svg width="14" height="14" aria-hidden="true">
            <rect x="0" y="8" width="6" height="6" fill={rampColour(0.4, dark)} />
            <rect x="5" y="0" width="9" height="9" fill={rampColour(0.4, dark)} />
          </svg>
          area: cpu
        </span>
      )}
    </span>
  );
}

function colourOf(row: NodeRow, by: Colouring, dark: boolean): string {
  if (by.fits) return fitColour(by.fits.has(row.name), dark);
  // The last steps are left out, since they mean that a node is full.
  if (by.selected)
    return rampColour(by.selected[row.name] ? 0.2 + ((by.selected[row.name] ?? 0) / by.most) * 0.69 : null, dark);
  return rampColour(fullness(row, by.resource), dark);
}

/** The text in a square that is large enough. */
function textOf(row: NodeRow, by: Colouring): string {
  if (by.fits) return by.fits.has(row.name) ? "fits" : "no";
  if (by.selected) return String(by.selected[row.name] ?? "");
  const share = fullness(row, by.resource);
  const text = share === null ? "–" : percent(share);
  return by.notes?.[row.name] ?? text;
}

function headingOf(block: Block, nodes: Map<string, NodeRow>, by: Colouring): string {
  const rows = block.names.map((name) => nodes.get(name)).filter((row) => row !== undefined);
  const count = plural(rows.length, "node");
  if (by.fits) return `${count}, ${rows.filter((row) => by.fits?.has(row.name)).length} fit`;
  if (by.selected)
    return `${count}, ${plural(
      rows.reduce((sum, row) => sum + (by.selected?.[row.name] ?? 0), 0),
      "pod",
    )}`;
  const share = totalFullness(rows, by.resource);
  return share === null ? count : `${count}, ${percent(share)} of ${by.resource}`;
}

interface Pointed {
  name: string;
  x: number;
  y: number;
}

const PANEL = 440; // the width of the panel and its margin, in pixels

/** The map, and above it the panel of a node: the map keeps its size and place when one opens. */
export function NodeMap(props: {
  state: ClusterState;
  group: string;
  marked: string;
  colouring: Colouring;
  open: (name: string) => void;
  children?: ComponentChildren;
}) {
  const { state, group, marked, colouring } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<Pointed | null>(null);
  const [cursor, setCursor] = useState("");
  const dark = useDark();
  useLayoutEffect(() => {
    if (!frame.current) return;
    const watched = frame.current;
    const measure = () => {
      const { paddingLeft, paddingRight } = getComputedStyle(watched);
      setWidth(watched.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight));
    };
    measure();
    const resized = new ResizeObserver(measure);
    resized.observe(watched);
    return () => resized.disconnect();
  }, []);
  const layout = useMemo(
    () => layOut(grouped(state.nodes.values(), group), Math.max(width, 200)),
    [state.structure, group, width],
  );
  useLayoutEffect(() => {
    if (!canvas.current || !width) return;
    draw(canvas.current, layout, width, state.nodes, {
      colour: (row) => colourOf(row, colouring, dark),
      heading: (block) => headingOf(block, state.nodes, colouring),
      text: (row) => textOf(row, colouring),
      marked,
      pointed: cursor,
      dark,
    });
  }, [layout, state.version, colouring, marked, cursor, dark, width]);
  const at = (event: MouseEvent) => nodeAt(layout, event.offsetX, event.offsetY);
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Enter" && cursor) props.open(cursor);
    else if (event.key === "Escape") setCursor("");
    else {
      const next = neighbour(layout, cursor || marked, event.key);
      if (!next) return;
      setCursor(next);
    }
    event.preventDefault();
  };
  const pointed = hover && state.nodes.get(hover.name);
  const told = cursor ? state.nodes.get(cursor) : undefined;
  const isRight = (placeOf(layout, marked)?.x ?? 0) + layout.size > width - PANEL;
  return (
    <div class={isRight ? "map-and-panel left" : "map-and-panel"}>
      <div class="map card" ref={frame}>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          aria-label={`Map of ${plural(state.nodes.size, "node")}; arrow keys move from node to node, Enter opens one`}
          onMouseMove={(event) => {
            const name = at(event);
            setHover(name ? { name, x: event.offsetX, y: event.offsetY } : null);
          }}
          onMouseLeave={() => setHover(null)}
          onClick={(event) => {
            const name = at(event);
            if (name) props.open(name);
          }}
          onKeyDown={pressed}
          onBlur={() => setCursor("")}
        />
        <p class="unseen" role="status">
          {told ? `${told.name}, ${words(told)}` : ""}
        </p>
        {pointed && hover && (
          <div class="tip" ref={(tip) => place(tip, hover, width)}>
            <b>{pointed.name}</b>
            <div>
              cpu {cores(pointed.cpu[0])} of {cores(pointed.cpu[1])}
            </div>
            <div>
              memory {gib(pointed.memory[0])} of {gib(pointed.memory[1])}
            </div>
            <div>
              pods {pointed.pods[0]} of {pointed.pods[1]}
            </div>
            {!["cpu", "memory", "pods"].includes(colouring.resource) && amountOf(pointed, colouring.resource) && (
              <div>
                {colouring.resource} {amountOf(pointed, colouring.resource)?.join(" of ")}
              </div>
            )}
            {colouring.selected && <div>{plural(colouring.selected[pointed.name] ?? 0, "such pod")}</div>}
            {colouring.notes?.[pointed.name] && <div>{colouring.notes[pointed.name]} pods in this wave</div>}
            {pointed.cordoned && <div class="warn">cordoned</div>}
            {pointed.notReady ? <div class="warn">not ready</div> : pointed.stopped && <div class="warn">stopped</div>}
            {colouring.rejected[pointed.name] && <div class="warn">{colouring.rejected[pointed.name]}</div>}
          </div>
        )}
      </div>
      {props.children}
    </div>
  );
}

function words(row: NodeRow): string {
  const share = fullness(row, "cpu");
  return [
    share === null ? "" : `cpu ${percent(share)}`,
    plural(row.pods[0], "pod"),
    row.notReady ? "not ready" : "",
    row.cordoned ? "cordoned" : "",
  ]
    .filter(Boolean)
    .join(", ");
}

function place(tip: HTMLElement | null, hover: Pointed, width: number): void {
  if (!tip) return;
  tip.style.left = `${Math.min(hover.x + 26, Math.max(0, width - 230))}px`;
  tip.style.top = `${hover.y + 26}px`;
}
