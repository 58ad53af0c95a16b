"""The summary of a cluster whose workload is decided: counts, nodes and pending pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import pod_key
from kubesched.api.pod_requests import pod_requested
from kubesched.api.resource_amounts import Resources
from kubesched.cli.text_table import text_table

__all__ = ["ClusterSummary", "NodeRow", "PendingPod", "render", "summarize", "tried_in_vain"]

_ZONE = "topology.kubernetes.io/zone"
_GIB = 1 << 30
_FINISHED = ("Succeeded", "Failed")
_EVICTED = "Evicted"
_NODES_SHOWN = 20


class NodeRow(msgspec.Struct, frozen=True, rename="camel"):
    """A node with the sum of its pods' requests."""

    name: str
    zone: str
    pods: int
    allowed_pods: int
    cpu_milli: int
    allocatable_cpu_milli: int
    memory_bytes: int
    allocatable_memory_bytes: int


class PendingPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod without a node, with the reason of its condition."""

    namespace: str
    name: str
    reason: str
    message: str
    # The first line of `kubesched explain`; empty if the pod fits or could not be explained.
    explanation: str = ""


class ClusterSummary(msgspec.Struct, frozen=True):
    """Counts of pods, and the tables of nodes and pending pods."""

    total: int
    bound: int
    finished: int
    pending: tuple[PendingPod, ...]
    nodes: tuple[NodeRow, ...]
    # Undecided pods, and owners whose pods do not exist yet, with reasons.
    undecided: Mapping[str, str] = {}
    # Owners whose pods are created later or never, with reasons.
    remarks: Mapping[str, str] = {}
    # Parts of the finished pods.
    failed: int = 0
    evicted: int = 0


def tried_in_vain(pod: Pod) -> bool:
    """Whether an attempt to schedule the pod has failed."""
    return _scheduled_condition(pod) is not None


def summarize(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    scheduler_names: Collection[str],
    *,
    held: Mapping[str, str] = MappingProxyType({}),
    undecided: Mapping[str, str] = MappingProxyType({}),
    remarks: Mapping[str, str] = MappingProxyType({}),
    explanations: Mapping[str, str] = MappingProxyType({}),
) -> ClusterSummary:
    """Summarize a cluster; `held` are the gated pods and `explanations` headlines, by key."""
    pods = list(pods)
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    ended = [pod for pod in pods if pod.status.phase in _FINISHED]
    bound = [pod for pod in pods if pod.spec.node_name]
    waiting = [pod for pod in pods if not pod.spec.node_name and pod.status.phase not in _FINISHED]
    waiting.sort(key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
    return ClusterSummary(
        total=len(pods),
        bound=len(bound),
        finished=len(ended),
        pending=tuple(
            msgspec.structs.replace(
                _pending(pod, scheduler_names, held, undecided),
                explanation=explanations.get(pod_key(pod), ""),
            )
            for pod in waiting
        ),
        nodes=_nodes_with_requests(nodes, bound),
        undecided=dict(undecided),
        remarks=dict(remarks),
        failed=len(failed),
        evicted=sum(pod.status.reason == _EVICTED for pod in failed),
    )


def _nodes_with_requests(nodes: Iterable[Node], bound: Iterable[Pod]) -> tuple[NodeRow, ...]:
    """Return the rows of all nodes, by name; pods that have ended do not count."""
    usage: dict[str, Resources] = {}
    counts: Counter[str] = Counter()
    for pod in bound:
        if pod.status.phase not in _FINISHED:
            usage.setdefault(pod.spec.node_name, Resources()).add(pod_requested(pod))
            counts[pod.spec.node_name] += 1
    return tuple(
        _node_row(node, counts[node.metadata.name], usage.get(node.metadata.name, Resources()))
        for node in sorted(nodes, key=lambda node: node.metadata.name)
    )


def render(summary: ClusterSummary) -> str:
    """Format tables and a line of counts for a terminal. Similar rows are merged."""
    parts = [text_table(_node_rows(summary.nodes))]
    if summary.pending:
        alike: dict[tuple[str, str], list[str]] = {}
        for pod in summary.pending:
            why = pod.explanation or pod.message
            alike.setdefault((pod.reason, why), []).append(f"{pod.namespace}/{pod.name}")
        rows = [(_one_of(names), *why) for why, names in alike.items()]
        parts.append(text_table([("PENDING", "REASON", "WHY"), *rows]))
    if summary.undecided:
        parts.append(text_table([("NOT DECIDED YET", "WHY"), *_by_value(summary.undecided)]))
    if summary.remarks:
        parts.append(text_table([("ALSO", "WHAT"), *_by_value(summary.remarks)]))
    parts.append(
        f"{summary.bound} of {summary.total} pods bound{_ended(summary)}, "
        f"{len(summary.pending)} pending"
    )
    return "\n\n".join(parts)


def _ended(summary: ClusterSummary) -> str:
    """Count the pods that have ended, in brackets; empty if there are none."""
    succeeded, failed = summary.finished - summary.failed, summary.failed - summary.evicted
    counts = {"finished": succeeded, "failed": failed, "evicted": summary.evicted}
    shown = [f"{count} {how}" for how, count in counts.items() if count]
    return f" ({', '.join(shown)})" if shown else ""


def _node_rows(nodes: Sequence[NodeRow]) -> list[tuple[str, ...]]:
    if len(nodes) > _NODES_SHOWN:
        return _group_rows(nodes)
    return [
        ("NODE", "ZONE", "PODS", "CPU", "MEMORY"),
        *(
            (
                row.name,
                row.zone or "-",
                f"{row.pods}/{row.allowed_pods}",
                f"{row.cpu_milli / 1000:g}/{row.allocatable_cpu_milli / 1000:g}",
                f"{row.memory_bytes / _GIB:.1f}/{row.allocatable_memory_bytes / _GIB:.0f} GiB",
            )
            for row in nodes
        ),
    ]


def _group_rows(nodes: Sequence[NodeRow]) -> list[tuple[str, ...]]:
    """Merge the nodes of one zone and size into one row."""
    groups: dict[tuple[str, int, int], list[NodeRow]] = {}
    for row in nodes:
        key = row.zone or "-", row.allocatable_cpu_milli, row.allocatable_memory_bytes
        groups.setdefault(key, []).append(row)
    lines: list[tuple[str, ...]] = [("NODES", "ZONE", "EACH", "PODS", "CPU", "MEMORY", "FULLEST")]
    for (zone, cpu, memory), rows in sorted(groups.items())[:_NODES_SHOWN]:
        fullest = max(rows, key=_fullness)
        lines.append(
            (
                str(len(rows)),
                zone,
                f"{cpu / 1000:g} cpu, {memory / _GIB:.0f} GiB",
                f"{sum(row.pods for row in rows)}/{sum(row.allowed_pods for row in rows)}",
                f"{_share(sum(row.cpu_milli for row in rows), cpu * len(rows)):.0%}",
                f"{_share(sum(row.memory_bytes for row in rows), memory * len(rows)):.0%}",
                f"{fullest.name} {_fullness(fullest):.0%}",
            )
        )
    if (rest := len(groups) - _NODES_SHOWN) > 0:
        lines.append((f"… and {rest} more kinds of nodes (-o json lists all)", *[""] * 6))
    return lines


def _fullness(row: NodeRow) -> float:
    return max(
        _share(row.cpu_milli, row.allocatable_cpu_milli),
        _share(row.memory_bytes, row.allocatable_memory_bytes),
        _share(row.pods, row.allowed_pods),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _by_value(why: Mapping[str, str]) -> list[tuple[str, str]]:
    alike: dict[str, list[str]] = {}
    for name, reason in why.items():
        alike.setdefault(reason, []).append(name)
    return [(_one_of(names), reason) for reason, names in alike.items()]


def _one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _node_row(node: Node, pods: int, used: Resources) -> NodeRow:
    allocatable = Resources.from_resource_list(node.status.allocatable)
    return NodeRow(
        name=node.metadata.name,
        zone=node.metadata.labels.get(_ZONE, ""),
        pods=pods,
        allowed_pods=Resources.allowed_pods(node.status.allocatable),
        cpu_milli=used.milli_cpu,
        allocatable_cpu_milli=allocatable.milli_cpu,
        memory_bytes=used.memory,
        allocatable_memory_bytes=allocatable.memory,
    )


def _pending(
    pod: Pod,
    scheduler_names: Collection[str],
    held: Mapping[str, str],
    undecided: Mapping[str, str],
) -> PendingPod:
    condition, key = _scheduled_condition(pod), pod_key(pod)
    if condition is not None:
        reason, message = condition
    elif pod.spec.scheduler_name not in scheduler_names:
        reason, message = "OtherScheduler", f"waits for scheduler {pod.spec.scheduler_name!r}"
    elif key in held:
        reason, message = "Held", f"kept out of the queue by plugin {held[key]}"
    else:
        reason, message = "Waiting", undecided.get(key, "not tried yet")
    return PendingPod(pod.metadata.namespace, pod.metadata.name, reason, message)


def _scheduled_condition(pod: Pod) -> tuple[str, str] | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    return None
