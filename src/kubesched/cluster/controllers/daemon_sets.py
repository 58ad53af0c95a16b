"""DaemonSets: one pod on every node that takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import DaemonSet, Node, Pod, Taint, Toleration
from kubesched.api.node_selector import RequiredNodeAffinity
from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE, first_untolerated
from kubesched.cluster.controllers.adoption import claimed, selector_of
from kubesched.cluster.controllers.cluster_view import View, is_active, is_available, is_ready
from kubesched.cluster.controllers.plans import (
    Action,
    Create,
    Delete,
    Plan,
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


def plan_daemon_set(view: View, owner: DaemonSet, document: Mapping[str, Any], now_ns: int) -> Plan:
    if owner.metadata.deletion_timestamp is not None:
        return Plan()
    template = document["spec"].get("template", {})
    known = revisions(view, owner, document)
    mark = known.current_hash
    nodes: dict[str, Node] = {node.metadata.name: node for node in view.all(Node)}
    wanted = {name for name, node in nodes.items() if _takes(owner, node)}
    by_node: dict[str, list[Pod]] = {}
    pods_, actions = claimed(view, owner, Pod, selector_of(owner))
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
    actions += [
        Create(Pod, _daemon(owner, template, mark, name), reports=True)
        for name in sorted(wanted - by_node.keys())
    ]
    for name, pods in by_node.items():
        keep = 1 if name in wanted else 0
        actions += [Delete(pod, reports=True) for pod in sorted(pods, key=_age)[keep:]]
    running = [pods[0] for name, pods in by_node.items() if name in wanted and pods]
    actions += _updates(document, running, mark, len(wanted))
    actions += status_patch(owner, document, _status(owner, running, wanted, by_node, mark, now_ns))
    in_use = {mark, *(pod.metadata.labels.get(HASH_LABEL, "") for pod in pods_)}
    actions += surplus_revisions(owner, known.known, in_use)
    ready = [pod for pod in running if is_ready(pod)]
    return Plan(actions, next_available_ns(ready, owner.spec.min_ready_seconds, now_ns))


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


def _updates(
    document: Mapping[str, Any], running: list[Pod], mark: str, wanted: int
) -> list[Action]:
    """Outdated pods to delete now: as many as may be unavailable at a time."""
    strategy = document["spec"].get("updateStrategy", {})
    if strategy.get("type") == "OnDelete":
        return []
    outdated = [pod for pod in running if pod.metadata.labels.get(HASH_LABEL) != mark]
    allowed = strategy.get("rollingUpdate", {}).get("maxUnavailable", 1)
    if isinstance(allowed, str):
        allowed = max(1, wanted * int(allowed.rstrip("%") or 0) // 100)
    unavailable = wanted - sum(is_ready(pod) for pod in running)
    broken = [pod for pod in outdated if not is_ready(pod)]
    healthy = [pod for pod in outdated if is_ready(pod)]
    return [Delete(pod) for pod in (*broken, *healthy[: max(0, allowed - unavailable)])]


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
