"""DaemonSets: one pod on every node that takes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kubesched.api import DaemonSet, Node, Pod, Taint, Toleration
from kubesched.api.node_selector import RequiredNodeAffinity
from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE, first_untolerated
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
from kubesched.cluster.controllers.object_index import (
    ObjectIndex,
    is_active,
    is_available,
    is_ready,
)
from kubesched.cluster.controllers.plans import (
    ActionPlan,
    Create,
    Delete,
    RecordEvent,
    status_patch,
)
from kubesched.cluster.controllers.replica_sets import next_available_ns, pod_from_template
from kubesched.cluster.controllers.revisions import HASH_LABEL, revisions, surplus_revisions

__all__ = ["plan_daemon_set"]

Json = dict[str, Any]

_GENERATION = "pod-template-generation"
_TAINTS = "node.kubernetes.io/"
# A daemon stays on its node in bad times, and goes to nodes that others avoid.
_TOLERATIONS: tuple[tuple[str, str], ...] = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)


def plan_daemon_set(
    objects: ObjectIndex, owner: DaemonSet, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    if owner.metadata.deletion_timestamp is not None:
        return ActionPlan()
    template = document["spec"].get("template", {})
    known = revisions(objects, owner, document)
    mark = known.current_mark
    nodes: dict[str, Node] = {node.metadata.name: node for node in objects.all(Node)}
    wanted = {name for name, node in nodes.items() if _takes(owner, node)}
    by_node: dict[str, list[Pod]] = {}
    pods_, actions = claim_objects(objects, owner, Pod, selector_of(owner))
    actions += known.actions
    for pod in pods_:
        if not is_active(pod):
            if pod.metadata.deletion_timestamp is None:
                # It ended, and another one takes its place.
                text = f"Found failed daemon pod {pod.metadata.namespace}/{pod.metadata.name} "
                text += f"on node {pod.spec.node_name}, will try to kill it"
                if pod.status.phase == "Failed":
                    actions.append(RecordEvent(owner, "FailedDaemonPod", text, warning=True))
                actions.append(Delete(pod, reports=True))
            else:
                by_node.setdefault(_node_of(pod), [])
            continue
        by_node.setdefault(_node_of(pod), []).append(pod)
    update = _Update(owner, document["spec"].get("updateStrategy", {}), mark, len(wanted), now_ns)
    settled: dict[str, list[Pod]] = {}
    for name, pods in by_node.items():
        kept = update.kept(pods) if name in wanted else []
        actions += [Delete(pod, reports=True) for pod in pods if pod not in kept]
        if name in wanted:
            settled[name] = kept
    replaced, places = update.steps(settled)
    actions += [Delete(pod, reports=True) for pod in replaced]
    actions += [
        Create(Pod, _daemon(owner, template, mark, name), reports=True)
        for name in (*sorted(wanted - by_node.keys()), *places)
    ]
    running = [pods[0] for pods in settled.values() if pods]
    actions += status_patch(owner, document, _status(owner, running, wanted, by_node, mark, now_ns))
    in_use = {mark, *(pod.metadata.labels.get(HASH_LABEL, "") for pod in pods_)}
    actions += surplus_revisions(owner, known.known, in_use)
    ready = [pod for pod in running if is_ready(pod)]
    return ActionPlan(actions, next_available_ns(ready, owner.spec.min_ready_seconds, now_ns))


def _age(pod: Pod) -> tuple[bool, str, str]:
    """Sorts first what has been there longest, and is somewhere."""
    return not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.metadata.name


def _tolerations(*, host_network: bool) -> list[Json]:
    pairs = [*_TOLERATIONS, *([("network-unavailable", NO_SCHEDULE)] if host_network else [])]
    return [
        {"key": f"{_TAINTS}{name}", "operator": "Exists", "effect": effect}
        for name, effect in pairs
    ]


def _takes(owner: DaemonSet, node: Node) -> bool:
    """Whether a node is one for the daemon, whatever room it has."""
    spec = owner.spec.template.spec
    if spec.node_name and spec.node_name != node.metadata.name:
        return False
    if not RequiredNodeAffinity.of(Pod(spec=spec)).matches_node(node):
        return False
    tolerated = [
        *spec.tolerations,
        *(
            Toleration(key=f"{_TAINTS}{name}", operator="Exists", effect=effect)
            for name, effect in _TOLERATIONS
        ),
    ]
    keeping_away: list[Taint] = [
        taint for taint in node.spec.taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)
    ]
    return first_untolerated(keeping_away, tolerated) is None


def _daemon(owner: DaemonSet, template: Mapping[str, Any], mark: str, node: str) -> Json:
    """A pod that can only go to one node; the scheduler takes it there."""
    pod = pod_from_template(owner, template)
    labels = {**pod["metadata"].get("labels", {}), HASH_LABEL: mark}
    labels[_GENERATION] = str(owner.metadata.generation)
    spec = dict(pod["spec"])
    affinity = dict(spec.get("affinity", {}))
    node_affinity = dict(affinity.get("nodeAffinity", {}))
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = required.get("nodeSelectorTerms") or [{}]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [{**term, "matchFields": [here]} for term in terms]
    }
    spec["affinity"] = {**affinity, "nodeAffinity": node_affinity}
    added = _tolerations(host_network=bool(spec.get("hostNetwork")))
    spec["tolerations"] = [*spec.get("tolerations", ()), *added]
    return {"metadata": {**pod["metadata"], "labels": labels}, "spec": spec}


def _node_of(pod: Pod) -> str:
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return ""
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    for term in () if required is None else required.node_selector_terms:
        for field in term.match_fields:
            if field.key == "metadata.name" and field.values:
                return field.values[0]
    return ""


class _Update:
    """Which pods give way to newer ones, and where newer ones come before the old go."""

    def __init__(
        self, owner: DaemonSet, strategy: Mapping[str, Any], mark: str, wanted: int, now_ns: int
    ) -> None:
        rolling = strategy.get("rollingUpdate") or {}
        self._is_rolling = strategy.get("type") != "OnDelete"
        self._surge = _share(rolling.get("maxSurge", 0), wanted)
        self._unavailable = _share(rolling.get("maxUnavailable", 1), wanted)
        if not self._surge and not self._unavailable:
            self._unavailable = 1
        self._mark, self._wanted = mark, wanted
        self._minimum, self._now_ns = owner.spec.min_ready_seconds, now_ns

    def kept(self, pods: list[Pod]) -> list[Pod]:
        """The pods that a node keeps: the oldest, and with a surge one of each version."""
        ordered = sorted(pods, key=_age)
        if not self._surge or not self._is_rolling:
            return ordered[:1]
        old, new = self._parted(ordered)
        return sorted([*old[:1], *new[:1]], key=_age)

    def _parted(self, pods: list[Pod]) -> tuple[list[Pod], list[Pod]]:
        new = [pod for pod in pods if pod.metadata.labels.get(HASH_LABEL) == self._mark]
        return [pod for pod in pods if pod not in new], new

    def _is_up(self, pod: Pod) -> bool:
        return is_available(pod, self._minimum, self._now_ns)

    def steps(self, by_node: Mapping[str, list[Pod]]) -> tuple[list[Pod], list[str]]:
        """Pods to delete, and nodes that get a second pod."""
        if not self._is_rolling:
            return [], []
        if self._surge:
            return self._with_surge(by_node)
        running = [pods[0] for pods in by_node.values() if pods]
        outdated = [pod for pod in running if pod.metadata.labels.get(HASH_LABEL) != self._mark]
        missing = self._wanted - sum(self._is_up(pod) for pod in running)
        broken = [pod for pod in outdated if not self._is_up(pod)]
        healthy = [pod for pod in outdated if self._is_up(pod)]
        return [*broken, *healthy[: max(0, self._unavailable - missing)]], []

    def _with_surge(self, by_node: Mapping[str, list[Pod]]) -> tuple[list[Pod], list[str]]:
        """A pod goes once its successor works; only so many nodes have two at a time."""
        gone: list[Pod] = []
        at_once: list[str] = []
        candidates: list[str] = []
        under_way = 0
        for name, pods in sorted(by_node.items()):
            old, new = self._parted(pods)
            if not old:
                continue
            if not new:
                (candidates if self._is_up(old[0]) else at_once).append(name)
            elif self._is_up(new[0]):
                gone.append(old[0])
            else:
                under_way += 1
        return gone, [*at_once, *candidates[: max(0, self._surge - under_way)]]


def _share(value: int | str, whole: int) -> int:
    """A number, or a percentage, rounded up."""
    if isinstance(value, str):
        number = value.removesuffix("%")
        return math.ceil(whole * int(number) / 100) if number.isdecimal() else 0
    return value


def _status(
    owner: DaemonSet,
    running: list[Pod],
    wanted: set[str],
    by_node: Mapping[str, list[Pod]],
    mark: str,
    now_ns: int,
) -> Json:
    ready = sum(is_ready(pod) for pod in running)
    minimum = owner.spec.min_ready_seconds
    available = sum(is_available(pod, minimum, now_ns) for pod in running)
    misplaced = sum(bool(pods) for name, pods in by_node.items() if name not in wanted)
    updated = sum(pod.metadata.labels.get(HASH_LABEL) == mark for pod in running)
    return {
        "currentNumberScheduled": len(running),
        "numberMisscheduled": misplaced,
        "desiredNumberScheduled": len(wanted),
        "numberReady": ready,
        "observedGeneration": owner.metadata.generation,
        "updatedNumberScheduled": updated or None,
        "numberAvailable": available or None,
        "numberUnavailable": (len(wanted) - available) or None,
    }
