import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { follow } from "./api";
import { ClusterState } from "./model";
import { href, parseRoute, type Route } from "./route";
import { Search } from "./search";
import "./style.css";
import { ClusterPage } from "./views/cluster";
import { LivePage } from "./views/live";
import { PodPage } from "./views/pod";
import { QueuePage } from "./views/queue";
import { TryPage } from "./views/try";
import { WhatIfPage } from "./views/whatif";

const TABS: [view: string, title: string][] = [
  ["cluster", "Cluster"],
  ["live", "Live"],
  ["queue", "Queue"],
  ["whatif", "What if"],
  ["try", "Try it"],
];

const state = new ClusterState();

function App() {
  const [route, setRoute] = useState<Route>(parseRoute(location.hash));
  const [, setVersion] = useState(0);
  const [paused, setPaused] = useState(false);
  useEffect(() => {
    const moved = () => setRoute(parseRoute(location.hash));
    window.addEventListener("hashchange", moved);
    return () => window.removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => {
    let due = false;
    follow(
      (frame) => {
        state.take(frame);
        if (due) return;
        due = true;
        // At most one picture per frame of the screen, however fast changes come.
        requestAnimationFrame(() => {
          due = false;
          setVersion(state.version);
        });
      },
      (connected) => {
        if (state.isConnected === connected) return;
        state.isConnected = connected;
        setVersion((version) => version + 1);
      },
    );
  }, []);
  const tabs = TABS.filter(([view]) => view !== "try" || state.writable);
  return (
    <>
      <a class="skip" href="#main">Skip to content</a>
      <header>
        <strong class="brand">kubesched</strong>
        <span class="where">{state.title}</span>
        <nav aria-label="Views">
          {tabs.map(([view, title]) => (
            <a key={view} href={href(view)} aria-current={route.view === view ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <Search />
        <span class={state.isConnected ? "state on" : "state off"} role="status">
          {state.isConnected ? "live" : "not connected"}
        </span>
      </header>
      <p class="counts" data-testid="counts">
        <b>{state.counts.nodes}</b> nodes <b>{state.counts.placed}</b> pods placed{" "}
        <b>{state.counts.waiting}</b> waiting
      </p>
      <main id="main" tabIndex={-1}>
        <View route={route} paused={paused} setPaused={setPaused} />
      </main>
    </>
  );
}

function View(props: { route: Route; paused: boolean; setPaused: (paused: boolean) => void }) {
  const { route } = props;
  switch (route.view) {
    case "live":
      return <LivePage state={state} paused={props.paused} setPaused={props.setPaused} />;
    case "queue":
      return <QueuePage state={state} />;
    case "pod":
      return <PodPage key={route.rest} name={route.rest} state={state} />;
    case "whatif":
      return <WhatIfPage state={state} />;
    case "try":
      return <TryPage state={state} />;
    default:
      return <ClusterPage state={state} route={route} />;
  }
}

const root = document.getElementById("app");
if (root) render(<App />, root);
