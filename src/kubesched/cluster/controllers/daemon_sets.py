"""DaemonSets: one pod on each node that the daemon may run on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.api import DaemonSet, Node, Pod, Taint, Toleration
from kubesched.api.node_selector import RequiredNodeAffinity
from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE, first_untolerated
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import (
    ObjectIndex,
    is_active,
    is_available,
    is_ready,
)
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Create,
    Delete,
    RecordEvent,
    status_patch,
)
from kubesched.cluster.controllers.replica_sets import next_available_ns, pod_from_template
from kubesched.cluster.controllers.revisions import (
    HASH_LABEL,
    delete_surplus_revisions,
    plan_revisions,
)
from kubesched.cluster.controllers.triggers import (
    AdoptableObject,
    OwnChange,
    RelatedChange,
    controlled,
)

__all__ = ["DAEMON_SET_CONTROLLER", "plan_daemon_set"]

Json = dict[str, Any]

_GENERATION = "pod-template-generation"
_TAINTS = "node.kubernetes.io/"
# Daemon pods tolerate the taints of unhealthy nodes.
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
    """Create missing daemon pods, delete surplus and failed ones, and roll out updates."""
    if owner.metadata.deletion_timestamp is not None:
        return ActionPlan()
    template = document["spec"].get("template", {})
    revisions = plan_revisions(objects, owner, document)
    mark = revisions.current_mark
    nodes: Sequence[Node] = list(objects.all(Node))
    eligible = {node.metadata.name for node in nodes if _may_run_on(owner, node)}
    claimed, actions = claim_objects(objects, owner, Pod, selector_of(owner))
    actions += revisions.actions
    pods_by_node, deletions = _split_pods(owner, claimed)
    actions += deletions
    strategy = document["spec"].get("updateStrategy", {})
    update = _RollingUpdate(owner, strategy, mark, len(eligible), now_ns)
    kept_by_node = {
        name: update.pods_to_keep(pods) for name, pods in pods_by_node.items() if name in eligible
    }
    for name, pods in pods_by_node.items():
        kept = kept_by_node.get(name, ())
        actions += [Delete(pod, reports=True) for pod in pods if pod not in kept]
    replaced, second_pod_nodes = update.next_step(kept_by_node)
    actions += [Delete(pod, reports=True) for pod in replaced]
    actions += [
        Create(Pod, _daemon_pod(owner, template, mark, name), reports=True)
        for name in (*sorted(eligible - pods_by_node.keys()), *second_pod_nodes)
    ]
    running = [pods[0] for pods in kept_by_node.values() if pods]
    status = _status(owner, running, eligible, pods_by_node, mark, now_ns)
    actions += status_patch(owner, document, status)
    in_use = {mark, *(pod.metadata.labels.get(HASH_LABEL, "") for pod in claimed)}
    actions += delete_surplus_revisions(owner, revisions.existing, in_use)
    ready = list(filter(is_ready, running))
    return ActionPlan(actions, next_available_ns(ready, owner.spec.min_ready_seconds, now_ns))


def _split_pods(owner: DaemonSet, pods: Sequence[Pod]) -> tuple[dict[str, list[Pod]], list[Action]]:
    """Return the active pods by node, and deletions of the pods that have ended.

    A node whose pod is terminating has an empty list, so that it gets no second pod before that one
    has ended.
    """
    by_node: dict[str, list[Pod]] = {}
    actions: list[Action] = []
    for pod in pods:
        if is_active(pod):
            by_node.setdefault(_node_of(pod), []).append(pod)
        elif pod.metadata.deletion_timestamp is not None:
            by_node.setdefault(_node_of(pod), [])
        else:
            if pod.status.phase == "Failed":
                text = f"Found failed daemon pod {pod.metadata.namespace}/{pod.metadata.name} "
                text += f"on node {pod.spec.node_name}, will try to kill it"
                actions.append(RecordEvent(owner, "FailedDaemonPod", text, warning=True))
            actions.append(Delete(pod, reports=True))
    return by_node, actions


def _age(pod: Pod) -> tuple[bool, str, str]:
    """Sort bound pods first, and then the oldest."""
    return not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.metadata.name


def _tolerations(*, host_network: bool) -> list[Json]:
    pairs = [*_TOLERATIONS, *([("network-unavailable", NO_SCHEDULE)] if host_network else [])]
    return [
        {"key": f"{_TAINTS}{name}", "operator": "Exists", "effect": effect}
        for name, effect in pairs
    ]


def _may_run_on(owner: DaemonSet, node: Node) -> bool:
    """Whether a node matches the daemon's constraints, without regard to free resources."""
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
    repelling: list[Taint] = [
        taint for taint in node.spec.taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)
    ]
    return first_untolerated(repelling, tolerated) is None


def _daemon_pod(owner: DaemonSet, template: Mapping[str, Any], mark: str, node: str) -> Json:
    """Build a pod whose node affinity allows one node. The scheduler binds it."""
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
    """Return the node that a daemon pod is bound to or meant for."""
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


class _RollingUpdate:
    """The next step of an update: outdated pods to delete, and nodes that get a second pod."""

    def __init__(
        self, owner: DaemonSet, strategy: Mapping[str, Any], mark: str, node_count: int, now_ns: int
    ) -> None:
        rolling = strategy.get("rollingUpdate") or {}
        self._is_rolling = strategy.get("type") != "OnDelete"
        self._surge = _share(rolling.get("maxSurge", 0), node_count)
        self._unavailable = _share(rolling.get("maxUnavailable", 1), node_count)
        if not self._surge and not self._unavailable:
            self._unavailable = 1
        self._mark, self._node_count = mark, node_count
        self._minimum, self._now_ns = owner.spec.min_ready_seconds, now_ns

    def pods_to_keep(self, pods: list[Pod]) -> list[Pod]:
        """Return the pods that stay on a node: the oldest, and with a surge one per version."""
        ordered = sorted(pods, key=_age)
        if not self._surge or not self._is_rolling:
            return ordered[:1]
        old, new = self._split_by_version(ordered)
        return sorted([*old[:1], *new[:1]], key=_age)

    def _split_by_version(self, pods: list[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Return the outdated and the up-to-date pods."""
        new = [pod for pod in pods if pod.metadata.labels.get(HASH_LABEL) == self._mark]
        return [pod for pod in pods if pod not in new], new

    def _is_up(self, pod: Pod) -> bool:
        return is_available(pod, self._minimum, self._now_ns)

    def next_step(self, by_node: Mapping[str, list[Pod]]) -> tuple[list[Pod], list[str]]:
        """Return the pods to delete, and the nodes that get a second pod."""
        if not self._is_rolling:
            return [], []
        if self._surge:
            return self._with_surge(by_node)
        running = [pods[0] for pods in by_node.values() if pods]
        outdated = [pod for pod in running if pod.metadata.labels.get(HASH_LABEL) != self._mark]
        missing = self._node_count - sum(self._is_up(pod) for pod in running)
        broken = [pod for pod in outdated if not self._is_up(pod)]
        healthy = [pod for pod in outdated if self._is_up(pod)]
        return [*broken, *healthy[: max(0, self._unavailable - missing)]], []

    def _with_surge(self, by_node: Mapping[str, list[Pod]]) -> tuple[list[Pod], list[str]]:
        """Delete a pod once its successor is available; limit the nodes that have two pods."""
        replaced: list[Pod] = []
        unavailable: list[str] = []
        candidates: list[str] = []
        in_progress = 0
        for name, pods in sorted(by_node.items()):
            old, new = self._split_by_version(pods)
            if not old:
                continue
            if not new:
                (candidates if self._is_up(old[0]) else unavailable).append(name)
            elif self._is_up(new[0]):
                replaced.append(old[0])
            else:
                in_progress += 1
        return replaced, [*unavailable, *candidates[: max(0, self._surge - in_progress)]]


def _share(value: int | str, whole: int) -> int:
    """Resolve a number or a percentage of `whole`, rounded up."""
    if isinstance(value, str):
        number = value.removesuffix("%")
        return math.ceil(whole * int(number) / 100) if number.isdecimal() else 0
    return value


def _status(
    owner: DaemonSet,
    running: list[Pod],
    eligible: set[str],
    by_node: Mapping[str, list[Pod]],
    mark: str,
    now_ns: int,
) -> Json:
    ready = sum(is_ready(pod) for pod in running)
    minimum = owner.spec.min_ready_seconds
    available = sum(is_available(pod, minimum, now_ns) for pod in running)
    misplaced = sum(bool(pods) for name, pods in by_node.items() if name not in eligible)
    updated = sum(pod.metadata.labels.get(HASH_LABEL) == mark for pod in running)
    return {
        "currentNumberScheduled": len(running),
        "numberMisscheduled": misplaced,
        "desiredNumberScheduled": len(eligible),
        "numberReady": ready,
        "observedGeneration": owner.metadata.generation,
        "updatedNumberScheduled": updated or None,
        "numberAvailable": available or None,
        "numberUnavailable": (len(eligible) - available) or None,
    }


def _all_daemon_sets(
    objects: ObjectIndex, node: Node, before: Node | None, gone: bool
) -> Sequence[str]:
    """Find all DaemonSets if a node was added or removed, or its spec or labels changed."""
    if (
        not gone
        and before is not None
        and before.spec == node.spec
        and before.metadata.labels == node.metadata.labels
    ):
        return ()
    return [each.metadata.uid for each in objects.all(DaemonSet)]


DAEMON_SET_CONTROLLER = Controller(
    "daemonset-controller",
    DaemonSet,
    plan_daemon_set,
    triggers=(
        OwnChange(DaemonSet),
        controlled(Pod, by=DaemonSet),
        AdoptableObject(Pod, DaemonSet),
        RelatedChange(Node, DaemonSet, _all_daemon_sets),
    ),
)
