"""The difference between two states of a cluster: moved and pending pods, and utilisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from kubesched.api import Node, Pod
from kubesched.api.pod_requests import pod_requested
from kubesched.api.resource_amounts import Resources
from kubesched.explain.rendering.frames import frame
from kubesched.explain.rendering.result import Result

__all__ = ["ClusterState", "GroupUse", "Move", "Waiting", "WhatIf", "difference"]

# Labels that divide nodes into groups, with the word for such a group. Of several labels with the
# same word, the first one present is used.
_GROUPINGS: Final = {
    "topology.kubernetes.io/zone": "zone",
    "node-pool": "pool",
    "pool": "pool",
    "cloud.google.com/gke-nodepool": "pool",
    "eks.amazonaws.com/nodegroup": "pool",
    "kubernetes.azure.com/agentpool": "pool",
    "node.kubernetes.io/instance-type": "type",
}


class Move(Result, frozen=True, kw_only=True):
    pod: str
    before: str
    after: str


class Waiting(Result, frozen=True, kw_only=True):
    pod: str
    reason: str


class GroupUse(Result, frozen=True, kw_only=True):
    """A group of nodes before and after: its nodes, pods and utilisation."""

    group: str  # such as "zone z1"
    nodes_before: int
    nodes_after: int
    pods_before: int
    pods_after: int
    cpu_before: float  # requested share of allocatable, 0 to 1
    cpu_after: float
    memory_before: float
    memory_after: float


class WhatIf(Result, frozen=True, kw_only=True):
    """The effects of the changes."""

    summary: str
    moved: tuple[Move, ...] = ()
    new: tuple[Move, ...] = ()  # pods that did not exist before
    gone: tuple[str, ...] = ()  # pods without a replacement
    waiting: tuple[Waiting, ...] = ()  # pods that were not pending before
    preempted: tuple[str, ...] = ()  # evicted by the scheduler to make room for other pods
    placed: tuple[Move, ...] = ()  # pods that were pending before
    blocked: tuple[Waiting, ...] = ()  # evictions that budgets refuse
    groups: tuple[GroupUse, ...] = ()
    drain_order: tuple[str, ...] = ()
    settled: bool = True

    def to_pandas(self) -> Any:
        """A pandas frame with a row for each pod; needs the extra `pandas`."""
        return _whatif_frame(self)

    def _repr_html_(self) -> str:
        return _whatif_html(self)

    def __repr__(self) -> str:
        return f"<WhatIf: {self.summary}>"


class ClusterState(NamedTuple):
    """Pods by namespace and name, and nodes."""

    pods: Mapping[str, Pod]
    nodes: Sequence[Node]


def difference(
    first: ClusterState,
    second: ClusterState,
    refused: Mapping[str, str],
    preempted: Collection[str],
    *,
    settled: bool,
) -> WhatIf:
    """Return the differences between two states.

    `refused` are evictions that budgets did not allow, `preempted` pods that the scheduler evicted.
    """
    before, after = first.pods, second.pods
    blocked = [Waiting(pod=name, reason=reason) for name, reason in sorted(refused.items())]
    moved, placed, new, waiting = [], [], [], []
    matched = _matched(before, after)
    for name, pod in sorted(after.items()):
        old = before.get(matched.get(name, name))
        was = old.spec.node_name if old is not None else ""
        now = pod.spec.node_name
        if not now:
            if old is None or was:
                waiting.append(Waiting(pod=name, reason=_why(pod)))
        elif old is None:
            new.append(Move(pod=name, before="", after=now))
        elif not was:
            placed.append(Move(pod=name, before="", after=now))
        elif was != now:
            moved.append(Move(pod=name, before=was, after=now))
    kept = {matched.get(name, name) for name in after}
    gone = tuple(sorted(name for name in before if name not in kept))
    return WhatIf(
        summary=_summary(moved, placed, new, gone, waiting, blocked, preempted),
        preempted=tuple(sorted(preempted)),
        moved=tuple(moved),
        placed=tuple(placed),
        new=tuple(new),
        gone=gone,
        waiting=tuple(waiting),
        blocked=tuple(blocked),
        groups=_groups(first, second),
        settled=settled,
    )


def _matched(before: Mapping[str, Pod], after: Mapping[str, Pod]) -> dict[str, str]:
    """Match new pods of a workload with its deleted ones: a replacement is a move."""
    went: dict[str, list[str]] = {}
    for name, pod in sorted(before.items()):
        if name not in after and (owner := _owner(pod)):
            went.setdefault(owner, []).append(name)
    matched = {}
    for name, pod in sorted(after.items()):
        if name not in before and (candidates := went.get(_owner(pod))):
            matched[name] = candidates.pop(0)
    return matched


def _owner(pod: Pod) -> str:
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return f"{pod.metadata.namespace}/{owner.kind}/{owner.name}"
    return ""


def _why(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return "not tried yet"


def _summary(
    moved: Sequence[object],
    placed: Sequence[object],
    new: Sequence[object],
    gone: Sequence[object],
    waiting: Sequence[object],
    blocked: Sequence[object],
    preempted: Collection[object],
) -> str:
    parts = [
        f"1 {one}" if len(values) == 1 else f"{len(values)} {several}"
        for values, one, several in (
            (moved, "pod moves", "pods move"),
            (placed, "waiting pod is placed", "waiting pods are placed"),
            (new, "new pod is placed", "new pods are placed"),
            (waiting, "pod would wait", "pods would wait"),
            (preempted, "pod is preempted", "pods are preempted"),
            (blocked, "eviction is refused by a budget", "evictions are refused by budgets"),
            (gone, "pod is gone and not replaced", "pods are gone and not replaced"),
        )
        if values
    ]
    return ", ".join(parts) or "nothing changes"


def _groups(before: ClusterState, after: ClusterState) -> tuple[GroupUse, ...]:
    telling = _distinguishing_labels((*before.nodes, *after.nodes))
    first = _use(before.pods, before.nodes, telling)
    second = _use(after.pods, after.nodes, telling)
    return tuple(
        GroupUse(
            group=name,
            nodes_before=first[name][0],
            nodes_after=second[name][0],
            pods_before=first[name][1],
            pods_after=second[name][1],
            cpu_before=first[name][2],
            cpu_after=second[name][2],
            memory_before=first[name][3],
            memory_after=second[name][3],
        )
        for name in sorted({*first, *second})
    )


class _Use(dict[str, tuple[int, int, float, float]]):
    def __missing__(self, key: str) -> tuple[int, int, float, float]:
        return (0, 0, 0.0, 0.0)


def _groups_of(nodes: Iterable[Node], known: Collection[str]) -> dict[str, list[str]]:
    """Return for each node the groups that it belongs to by its labels."""
    return {
        node.metadata.name: [
            f"{_GROUPINGS[key]} {node.metadata.labels[key]}"
            for key in known
            if key in node.metadata.labels
        ]
        or ["all"]
        for node in nodes
    }


def _distinguishing_labels(nodes: Iterable[Node]) -> list[str]:
    """Return the labels that occur on nodes, one for each kind of group."""
    present = {key for node in nodes for key in node.metadata.labels}
    found: dict[str, str] = {}
    for key, word in _GROUPINGS.items():
        if key in present:
            found.setdefault(word, key)
    return list(found.values())


def _use(pods: Mapping[str, Pod], nodes: Sequence[Node], telling: Collection[str]) -> _Use:
    """Return for each group its nodes, pods and shares of cpu and memory."""
    groups_of = _groups_of(nodes, telling)
    room: dict[str, Resources] = {}
    for node in nodes:
        amounts = Resources.from_resource_list(node.status.allocatable)
        for group in groups_of[node.metadata.name]:
            room.setdefault(group, Resources()).add(amounts)
    asked: dict[str, Resources] = {}
    counts: Counter[str] = Counter()
    for pod in pods.values():
        for group in groups_of.get(pod.spec.node_name, ()):
            asked.setdefault(group, Resources()).add(pod_requested(pod))
            counts[group] += 1
    sizes = Counter(group for groups in groups_of.values() for group in groups)
    return _Use(
        {
            name: (
                sizes[name],
                counts[name],
                _share(asked.get(name, Resources()).milli_cpu, total.milli_cpu),
                _share(asked.get(name, Resources()).memory, total.memory),
            )
            for name, total in room.items()
        }
    )


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _whatif_frame(answer: WhatIf) -> Any:
    """Return a row for each affected pod: what happens to it, from where, to where."""
    rows = [
        {"pod": move.pod, "what": what, "before": move.before, "after": move.after, "reason": ""}
        for what, moves in (
            ("moved", answer.moved),
            ("placed", answer.placed),
            ("new", answer.new),
        )
        for move in moves
    ]
    rows += [
        {"pod": each.pod, "what": what, "before": "", "after": "", "reason": each.reason}
        for what, entries in (("waiting", answer.waiting), ("refused", answer.blocked))
        for each in entries
    ]
    rows += [
        {"pod": pod, "what": "gone", "before": "", "after": "", "reason": ""} for pod in answer.gone
    ]
    return frame(rows, ["pod", "what", "before", "after", "reason"])


def _whatif_html(answer: WhatIf) -> str:
    """Return the HTML for a notebook."""
    moves = "".join(
        f"<tr><td>{escape(each.pod)}</td><td>{escape(each.before)}</td>"
        f"<td>{escape(each.after)}</td></tr>"
        for each in (*answer.moved, *answer.placed, *answer.new)
    )
    waiting = "".join(
        f"<tr><td>{escape(each.pod)}</td><td>{escape(each.reason)}</td></tr>"
        for each in (*answer.waiting, *answer.blocked)
    )
    return (
        f"<h1>{escape(answer.summary)}</h1>"
        f"<table><tr><th>pod</th><th>before</th><th>after</th></tr>{moves}</table>"
        + (f"<h2>Waiting or refused</h2><table>{waiting}</table>" if waiting else "")
    )
