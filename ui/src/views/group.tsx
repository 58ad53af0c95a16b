import { plural } from "../format";
import { useAnswer, usePaced } from "../hooks";
import type { ClusterState, PodRow } from "../model";
import { Empty, Loading, Mark, Message, NodeLink, PodLink, Table } from "../parts";
import { encodePath, href } from "../route";
import type { GroupRow, GroupView, PodGroupExplanation } from "../wire";

/** A pod group: what it waits for, how many of its pods fit each domain, and its pods. */
export function GroupPage({ name, state }: { name: string; state: ClusterState }) {
  const paced = usePaced(state.version, 1000);
  const { value: view, error } = useAnswer<GroupView>(`groups/${encodePath(name)}`, [paced]);
  const waiting = view ? view.group.pods - view.group.placed : 0;
  const isExplained = view && view.group.policy !== "missing";
  const version = view ? `${view.group.pods}/${view.group.placed}/${view.group.message}` : "";
  const why = useAnswer<PodGroupExplanation>(isExplained ? `group-explanations/${encodePath(name)}` : "", [version]);
  if (error && !view)
    return (
      <Empty title={error}>
        <a href={href("queue")}>Waiting pods</a>
      </Empty>
    );
  if (!view) return <Loading text="Loading the group…" />;
  const { group } = view;
  return (
    <section class="pod">
      <h1>{group.key}</h1>
      <p class="facts">
        <span>{plural(group.pods, "pod")}</span>
        <span>{group.placed} on nodes</span>
        <span>{neededInWords(group)}</span>
        {group.priority !== undefined && <span>priority {group.priority}</span>}
        <span>{group.status}</span>
      </p>
      {group.policy === "missing" && (
        <p class="verdict pending">These pods name a PodGroup that does not exist. They wait until it is created.</p>
      )}
      {why.error && <Message text={why.error} bad />}
      {isExplained && !why.value && !why.error && <Loading text="Computing the explanation…" />}
      {why.value && <Why explanation={why.value} />}
      {group.message && <p class="dim">The scheduler says: {group.message}</p>}
      <h2>{waiting > 0 ? `Its pods, ${waiting} of which wait` : "Its pods"}</h2>
      <Members pods={view.pods} />
    </section>
  );
}

/** How many pods of a group must be placed together. */
export function neededInWords(group: GroupRow): string {
  if (group.policy === "missing") return "the PodGroup does not exist";
  const where = group.topology ? `, in one ${group.topology}` : "";
  return (group.policy === "gang" ? `at least ${group.needed}` : "each where it fits") + where;
}

function Why({ explanation }: { explanation: PodGroupExplanation }) {
  return (
    <>
      <p class={`verdict ${explanation.verdict === "scheduled" ? "placed" : "pending"}`} data-testid="summary">
        {explanation.summary}.
      </p>
      {explanation.domains.length > 0 && (
        <>
          <h2>How many pods fit together</h2>
          <Table label="Domains" head={[explanation.topology_key, "Nodes", "Pods that fit"]}>
            {explanation.domains.map((domain) => (
              <tr key={domain.name}>
                <td>{domain.name}</td>
                <td class="number">{domain.nodes}</td>
                <td class="number">{domain.fits}</td>
              </tr>
            ))}
          </Table>
        </>
      )}
      {explanation.message && explanation.verdict === "pending" && (
        <p>The next pod does not fit: {explanation.message}</p>
      )}
    </>
  );
}

function Members({ pods }: { pods: PodRow[] }) {
  return (
    <Table label="Pods of the group" head={["Pod", "Priority", "Node", "Why it waits"]}>
      {pods.map((pod) => (
        <tr key={pod.key}>
          <td>
            <PodLink name={pod.key} />
          </td>
          <td class="number">{pod.priority}</td>
          <td>{pod.node ? <NodeLink name={pod.node} /> : <Mark what="waiting" />}</td>
          <td class="wide">{pod.node ? "" : (pod.reason ?? "not tried yet")}</td>
        </tr>
      ))}
    </Table>
  );
}
