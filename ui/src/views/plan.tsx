import { useMemo } from "preact/hooks";
import { plural } from "../format";
import { type ClusterState, extendedResources, groupingLabels } from "../model";
import { Empty, Message, PodLink, Table, Tile } from "../parts";
import { href, type Route } from "../route";
import type { PlanMove, PlanOutline } from "../wire";
import { type Colouring, Legend, NodeMap } from "./cluster";
import { NodePanel } from "./node";

const MOST_SHOWN = 500;

/** A plan for fewer nodes: its numbers, and the map, the moves and the emptied nodes of a wave. */
export function PlanPage({ state, route }: { state: ClusterState; route: Route }) {
  const plan = state.outline?.plan;
  const wave = Math.max(0, state.outline?.runs[0]?.moments.indexOf(state.at) ?? 0);
  const labels = useMemo(() => groupingLabels(state.nodes.values()), [state.structure]);
  const resources = useMemo(
    () => ["cpu", "memory", "pods", ...extendedResources(state.nodes.values())],
    [state.structure],
  );
  const group = labels.find((label) => label.endsWith("/zone")) ?? "";
  const resource = route.query.get("colour") ?? "cpu";
  const node = route.query.get("node") ?? "";
  const moves = useMemo(() => (plan ? plan.moves.filter((move) => move.wave === wave) : []), [plan, wave]);
  const colouring: Colouring = useMemo(
    () => ({ resource, fits: null, rejected: {}, selected: null, most: 1, notes: changesOf(moves) }),
    [resource, moves],
  );
  if (!plan) return <Empty title="There is no plan here." />;
  const go = (change: Record<string, string>) => {
    location.hash = href("plan", "", { colour: resource === "cpu" ? "" : resource, node, ...change });
  };
  return (
    <section class="plan">
      <h1>
        {plan.planned < plan.nodes
          ? `${plural(plan.nodes, "node")} now, ${plan.planned} in the plan`
          : "The plan needs no fewer nodes"}
      </h1>
      <Numbers plan={plan} wave={wave} />
      {!plan.verified && <Message text="The rehearsal of this plan failed. Do not apply it." bad />}
      {plan.problems.map((each) => (
        <Message key={each} text={each} bad />
      ))}
      <div class="controls">
        <label>
          <span>Colour by</span>
          <select value={resource} onChange={(event) => go({ colour: event.currentTarget.value })}>
            {resources.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <Legend colouring={colouring} state={state} />
      </div>
      <NodeMap state={state} group={group} marked={node} colouring={colouring} open={(name) => go({ node: name })}>
        {node && <NodePanel key={node} name={node} state={state} close={() => go({ node: "" })} />}
      </NodeMap>
      <Wave plan={plan} wave={wave} moves={moves} open={(name) => href("plan", "", { node: name })} />
      <Kept plan={plan} />
    </section>
  );
}

function Numbers({ plan, wave }: { plan: PlanOutline; wave: number }) {
  const done = plan.emptied.slice(0, wave + 1).flat().length;
  const all = plan.emptied.flat().length;
  const moved = plan.moves.filter((move) => move.wave <= wave).length;
  return (
    <div class="tiles" data-testid="plan-numbers">
      <Tile value={plan.nodes.toLocaleString("en")} label="nodes now" />
      <Tile value={plan.planned.toLocaleString("en")} label="nodes in the plan" />
      <Tile value={plan.bound.toLocaleString("en")} label="nodes at least, proved" />
      <Tile value={`${done.toLocaleString("en")} of ${all.toLocaleString("en")}`} label="nodes emptied so far" />
      <Tile
        value={`${moved.toLocaleString("en")} of ${plan.moves.length.toLocaleString("en")}`}
        label="pods moved so far"
      />
    </div>
  );
}

function Wave(props: { plan: PlanOutline; wave: number; moves: PlanMove[]; open: (name: string) => string }) {
  const { plan, wave, moves, open } = props;
  if (plan.moves.length === 0) return <p class="dim">There are no moves.</p>;
  if (wave === 0) {
    return (
      <p class="dim">
        This is the cluster before the first of {plural(plan.emptied.length - 1, "wave")}. Play, or move the slider.
      </p>
    );
  }
  const emptied = plan.emptied[wave] ?? [];
  return (
    <>
      <h2>Wave {wave}</h2>
      <p data-testid="emptied">
        {emptied.length === 0 ? "It empties no node." : `It empties ${plural(emptied.length, "node")}: `}
        {emptied.map((name, place) => (
          <span key={name}>
            {place > 0 && ", "}
            <a href={open(name)}>{name}</a>
          </span>
        ))}
      </p>
      <Table label={`Moves of wave ${wave}`} head={[plural(moves.length, "pod"), "From", "To"]}>
        {moves.slice(0, MOST_SHOWN).map((move) => (
          <tr key={move.pod}>
            <td>
              <PodLink name={move.pod} />
            </td>
            <td>
              <a href={open(move.from)}>{move.from}</a>
            </td>
            <td>
              <a href={open(move.to)}>{move.to}</a>
            </td>
          </tr>
        ))}
      </Table>
      {moves.length > MOST_SHOWN && <p class="dim">The first {MOST_SHOWN} are shown.</p>}
    </>
  );
}

function Kept({ plan }: { plan: PlanOutline }) {
  const kept = Object.entries(plan.kept);
  if (kept.length === 0) return null;
  return (
    <details>
      <summary>Why {plural(kept.length, "node cannot", "nodes cannot")} be emptied</summary>
      <ul>
        {kept.slice(0, MOST_SHOWN).map(([name, reason]) => (
          <li key={name}>
            {name}: {reason}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** How many pods leave and reach each node, as "−2 +1". */
export function changesOf(moves: PlanMove[]): Record<string, string> {
  const counts: Record<string, [leave: number, come: number]> = {};
  const of = (name: string) => {
    counts[name] ??= [0, 0];
    return counts[name];
  };
  for (const move of moves) {
    of(move.from)[0] += 1;
    of(move.to)[1] += 1;
  }
  return Object.fromEntries(
    Object.entries(counts).map(([name, [leave, come]]) => [
      name,
      [leave ? `−${leave}` : "", come ? `+${come}` : ""].filter(Boolean).join(" "),
    ]),
  );
}
