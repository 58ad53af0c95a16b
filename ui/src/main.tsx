import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { AnswerError, follow, momentFrame, outline } from "./api";
import { limitsInWords } from "./format";
import { ClusterState, type Run } from "./model";
import { Loading } from "./parts";
import { href, moment, parseRoute, type Route } from "./route";
import { Search } from "./search";
import "./style.css";
import { TimeBar } from "./timebar";
import { ClusterPage } from "./views/cluster";
import { GroupPage } from "./views/group";
import { LivePage } from "./views/live";
import { PlanPage } from "./views/plan";
import { PluginsPage } from "./views/plugins";
import { PodPage } from "./views/pod";
import { QueuePage } from "./views/queue";
import { ReportPage } from "./views/report";
import { ShadowPage } from "./views/shadow";
import { TryPage } from "./views/try";
import { WhatIfPage } from "./views/whatif";

const state = new ClusterState();

function tabs(): [view: string, title: string][] {
  const report = state.outline?.isReport;
  const hasObjects = !report || state.outline?.hasObjects;
  return [
    ...(report ? [["report", "Report"] as [string, string]] : []),
    ...(state.outline?.plan ? [["plan", "Plan"] as [string, string]] : []),
    ...(hasObjects
      ? ([
          ["cluster", "Cluster"],
          ["live", state.outline ? "Decisions" : "Live"],
          ["queue", "Queue"],
          ["whatif", "What if"],
        ] as [string, string][])
      : []),
    ...(state.hasPanels ? [["plugins", "Plugins"] as [string, string]] : []),
    ...(state.hasShadow ? [["shadow", "Shadow"] as [string, string]] : []),
    ...(state.writable ? [["try", "Try it"] as [string, string]] : []),
  ];
}

function App() {
  // Read on each render: the slider changes the address without an event.
  const route = parseRoute(location.hash);
  const [, setVersion] = useState(0);
  const [problem, setProblem] = useState("");
  const redraw = () => setVersion((version) => version + 1);
  useEffect(() => {
    window.addEventListener("hashchange", redraw);
    return () => window.removeEventListener("hashchange", redraw);
  }, []);
  useEffect(() => {
    let end = () => {};
    outline().then(
      (found) => {
        state.outline = found;
        if (found) {
          state.title = found.title;
          state.isConnected = true;
          openTimeline(setProblem, redraw);
        } else end = followLive(redraw, setProblem);
      },
      (error: Error) => setProblem(error.message),
    );
    return () => end();
  }, []);
  const shown = tabs();
  const asked = isBare() ? (shown[0]?.[0] ?? "cluster") : route.view;
  return (
    <>
      {/* biome-ignore lint/a11y/useValidAnchor: a skip link moves the focus */}
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <header>
        <a class="brand" href={href(shown[0]?.[0] ?? "cluster")}>
          <Logo /> kubesched
        </a>
        <span class="where">{state.title}</span>
        <nav aria-label="Views">
          {shown.map(([view, title]) => (
            <a key={view} href={href(view)} aria-current={asked === view ? "page" : undefined}>
              {title}
              {view === "queue" && state.counts.waiting > 0 && (
                <span class="count">{state.counts.waiting.toLocaleString("en")}</span>
              )}
            </a>
          ))}
        </nav>
        <Search />
        <ConnectionState />
      </header>
      {state.outline && state.version > 0 && <Slider redraw={redraw} setProblem={setProblem} />}
      <main id="main" tabIndex={-1}>
        {problem && (
          <p class="message bad" role="alert">
            {problem}
          </p>
        )}
        {state.limits && (
          <p class="message" data-testid="limits">
            {limitsInWords(state.limits)}
          </p>
        )}
        {state.version > 0 ? (
          <View route={{ ...route, view: asked }} />
        ) : (
          !problem && <Loading text="Reading the cluster…" />
        )}
      </main>
    </>
  );
}

/** Whether the address names no view; the page then shows the first one. */
function isBare(): boolean {
  return !location.hash.replace(/^#\/?/, "");
}

function skip(event: Event): void {
  // The fragment of the address selects the view, so the link must not change it.
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function ConnectionState() {
  if (state.outline)
    return (
      <span class="state past" role="status">
        recorded
      </span>
    );
  const words = state.isConnected ? "live" : state.version > 0 ? "not connected, retrying" : "connecting";
  return (
    <span class={state.isConnected ? "state on" : "state off"} role="status">
      {words}
    </span>
  );
}

function Logo() {
  return (
    <svg class="logo" width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
      <rect x="1" y="1" width="8" height="8" rx="2" />
      <rect x="11" y="1" width="8" height="8" rx="2" class="pale" />
      <rect x="1" y="11" width="8" height="8" rx="2" class="pale" />
      <rect x="11" y="11" width="8" height="8" rx="2" class="warm" />
    </svg>
  );
}

/** Follows a live cluster, with at most one update per animation frame. */
function followLive(redraw: () => void, setProblem: (text: string) => void): () => void {
  let due = false;
  return follow(
    (frame) => {
      state.take(frame);
      if (due) return;
      due = true;
      requestAnimationFrame(() => {
        due = false;
        redraw();
      });
    },
    (connected) => {
      if (state.isConnected === connected) return;
      state.isConnected = connected;
      redraw();
      // The session may have expired. The server then refuses any request.
      if (connected) setProblem("");
      else
        outline().catch(
          (error: Error) => error instanceof AnswerError && error.status === 401 && setProblem(error.message),
        );
    },
  );
}

let shownRun = "";
let shownAt: number | null = null;
let wanted: number | null = null;
let isAsking = false;

function currentRun(): Run | undefined {
  const runs = state.outline?.runs ?? [];
  return runs.find((run) => run.name === shownRun) ?? runs[0];
}

function openTimeline(setProblem: (text: string) => void, redraw: () => void): void {
  const query = parseRoute(location.hash).query;
  shownRun = query.get("run") ?? state.outline?.runs[0]?.name ?? "";
  const run = currentRun();
  if (!run) return;
  const at = Number(query.get("at") ?? "");
  goTo(run, at >= run.start && at <= run.end && query.has("at") ? at : run.end, setProblem, redraw);
}

/** Shows a moment. During a request only the latest other moment is queued. */
function goTo(run: Run, at: number, setProblem: (text: string) => void, redraw: () => void): void {
  wanted = at;
  if (isAsking) return;
  isAsking = true;
  const since = run.name === shownRun && state.version > 0 ? shownAt : null;
  momentFrame(run.name, at, since)
    .then(
      (frame) => {
        shownRun = run.name;
        shownAt = at;
        moment.at = at === run.end ? "" : String(at);
        moment.run = state.outline && state.outline.runs.length > 1 ? run.name : "";
        state.take(frame);
        setProblem("");
        remember();
      },
      (error: Error) => setProblem(error.message),
    )
    .finally(() => {
      isAsking = false;
      redraw();
      if (wanted !== null && wanted !== at) goTo(run, wanted, setProblem, redraw);
    });
}

/** Writes the moment to the address without a new entry in the history. */
function remember(): void {
  const route = parseRoute(location.hash);
  const query = Object.fromEntries([...route.query].filter(([key]) => key !== "at" && key !== "run"));
  const view = isBare() ? (tabs()[0]?.[0] ?? route.view) : route.view;
  if (!isBare() || moment.at) history.replaceState(null, "", href(view, route.rest, query));
}

function Slider({ redraw, setProblem }: { redraw: () => void; setProblem: (text: string) => void }) {
  const run = currentRun();
  if (!state.outline || !run || run.end <= run.start) return null;
  return (
    <TimeBar
      outline={state.outline}
      run={run}
      at={wanted ?? run.end}
      go={(at) => {
        goTo(run, at, setProblem, redraw);
        redraw();
      }}
      choose={(name) => {
        const other = state.outline?.runs.find((each) => each.name === name);
        if (!other) return;
        shownAt = null;
        shownRun = name;
        state.version = 0;
        goTo(other, Math.min(Math.max(wanted ?? other.end, other.start), other.end), setProblem, redraw);
      }}
    />
  );
}

function View({ route }: { route: Route }) {
  switch (route.view) {
    case "report":
      return <ReportPage state={state} at={wanted} />;
    case "plan":
      return <PlanPage state={state} route={route} />;
    case "live":
      return <LivePage state={state} route={route} />;
    case "queue":
      return <QueuePage state={state} route={route} />;
    case "pod":
      return <PodPage key={route.rest} name={route.rest} state={state} />;
    case "group":
      return <GroupPage key={route.rest} name={route.rest} state={state} />;
    case "whatif":
      return <WhatIfPage state={state} route={route} />;
    case "plugins":
      return <PluginsPage state={state} />;
    case "shadow":
      return <ShadowPage state={state} />;
    case "try":
      return <TryPage state={state} />;
    default:
      return <ClusterPage state={state} route={route} />;
  }
}

const root = document.getElementById("app");
if (root) render(<App />, root);
