import { useAnswer, usePaced } from "../hooks";
import type { ClusterState } from "../model";
import { Empty, Loading, Message, NodeLink, PodLink, Table } from "../parts";
import type { Panel, PanelMeter, PanelRow, PluginPanels } from "../wire";

/** What plugins show of their own state: quotas, groups, measurements. */
export function PluginsPage({ state }: { state: ClusterState }) {
  const paced = usePaced(state.version, 1000);
  const { value, error } = useAnswer<PluginPanels[]>("panels", [paced]);
  if (!value) return error ? <Message text={error} bad /> : <Loading text="Asking the plugins…" />;
  const shown = value.filter((each) => each.panels.length > 0);
  if (shown.length === 0) {
    return (
      <Empty title="No plugin shows anything." isHeading>
        Plugins with state of their own, such as quotas or groups, show it here.
      </Empty>
    );
  }
  return (
    <section>
      <h1>Plugins</h1>
      {shown.map((each) =>
        each.panels.map((panel) => (
          <PanelTable key={`${each.plugin} ${panel.title}`} plugin={each.plugin} panel={panel} />
        )),
      )}
    </section>
  );
}

function PanelTable({ plugin, panel }: { plugin: string; panel: Panel }) {
  const hasState = panel.rows.some((row) => row.state);
  return (
    <section class="panel">
      <h2>
        {panel.title} <span class="dim">{plugin}</span>
      </h2>
      {panel.summary && <p class={panel.tone ? `message ${panel.tone}` : "dim"}>{panel.summary}</p>}
      {panel.rows.length > 0 && (
        <Table label={panel.title} head={["Name", ...(hasState ? ["State"] : []), "Use", "Remarks"]}>
          {panel.rows.map((row) => (
            <Row key={row.name} row={row} hasState={hasState} />
          ))}
        </Table>
      )}
      {panel.more > 0 && <p class="dim">And {panel.more.toLocaleString("en")} more.</p>}
    </section>
  );
}

function Row({ row, hasState }: { row: PanelRow; hasState: boolean }) {
  return (
    <tr>
      <th scope="row">{row.node ? <NodeLink name={row.node} /> : row.name}</th>
      {hasState && <td>{row.state && <span class={`mark tone-${row.tone || "calm"}`}>{row.state}</span>}</td>}
      <td class="meters">
        {row.meters.map((meter) => (
          <MarkedMeter key={meter.name} meter={meter} />
        ))}
      </td>
      <td class="wide">
        {row.text}
        {row.pods.map((pod) => (
          <span key={pod}>
            {" "}
            <PodLink name={pod} />
          </span>
        ))}
      </td>
    </tr>
  );
}

/** A bar with marks, such as what is guaranteed. */
function MarkedMeter({ meter }: { meter: PanelMeter }) {
  const marks = meter.marks.map((mark) => mark.text).join(", ");
  return (
    <div class="meter marked">
      <span class="meter-name">{meter.name}</span>
      <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect class="bar-back" width="100" height="8" />
        <rect class={`bar-front ${meter.tone}`} width={meter.share * 100} height="8" />
        {meter.marks.map((mark) => (
          <rect key={mark.text} class="bar-mark" x={Math.min(mark.share * 100, 98.5)} width="1.5" height="8" />
        ))}
      </svg>
      <span class="meter-text">
        {meter.text}
        {marks && <span class="dim"> ({marks})</span>}
      </span>
    </div>
  );
}
