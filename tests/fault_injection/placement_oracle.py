"""The placement oracle: whether the API allows a pod on a node, computed object by object.

The oracle uses no plugins, tables or caches. Everything that a decision depends on is passed in as
plain objects. It does not check volumes and devices; `resource_oracle` does that on the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kubesched.api import LabelSelector, Node, Pod, PodAffinityTerm, Taint, Toleration
from kubesched.api.pod_requests import pod_requested
from kubesched.api.quantity import parse_quantity
from tests.fault_injection.generated_objects import FOO, SERVED

__all__ = ["has_affinity_to", "placement_violations"]

_MILLI = {"cpu": 1000}


def placement_violations(
    pod: Pod, node_name: str, nodes: Mapping[str, Node], placed: Collection[Pod]
) -> Iterator[str]:
    """Return why a pod must not be on a node, given all nodes and the pods on them."""
    node = nodes.get(node_name)
    if node is None:
        yield f"node {node_name} does not exist"
        return
    others = [each for each in placed if each.metadata.uid != pod.metadata.uid]
    here = [each for each in others if each.spec.node_name == node_name]
    yield from _node_objections(pod, node)
    yield from _room_objections(pod, node, here)
    yield from _port_objections(pod, here)
    yield from _neighbour_objections(pod, node, nodes, others)
    yield from _spread_objections(pod, node, nodes, others)


def _node_objections(pod: Pod, node: Node) -> Iterator[str]:
    taints = [*node.spec.taints]
    if node.spec.unschedulable:
        taints.append(Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"))
    for taint in taints:
        is_hard = taint.effect in ("NoSchedule", "NoExecute")
        if is_hard and not any(_tolerates(each, taint) for each in pod.spec.tolerations):
            yield f"taint {taint.key} is not tolerated"
    for key, value in (pod.spec.node_selector or {}).items():
        if node.metadata.labels.get(key) != value:
            yield f"label {key} is not {value}"


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def _room_objections(pod: Pod, node: Node, here: Sequence[Pod]) -> Iterator[str]:
    allocatable = node.status.allocatable
    if len(here) + 1 > int(parse_quantity(allocatable.get("pods", "0")).value):
        yield f"the node has {len(here)} pods already"
    wanted = _requests(pod)
    used = [_requests(each) for each in here]
    for name, amount in wanted.items():
        has = parse_quantity(allocatable.get(name, "0"))
        room = has.milli_value if name in _MILLI else has.value
        total = amount + sum(each.get(name, 0) for each in used)
        if amount and total > room:
            yield f"{total} of {name} would be requested of {room}"


def _requests(pod: Pod) -> dict[str, int]:
    amounts = pod_requested(pod)
    scalars = {
        name: amount
        for name, amount in amounts.scalar.items()
        if name != FOO and not name.startswith(SERVED)
    }
    return {"cpu": amounts.milli_cpu, "memory": amounts.memory, **scalars}


def _ports(pod: Pod) -> set[int]:
    return {port.host_port for each in pod.spec.containers for port in each.ports if port.host_port}


def _port_objections(pod: Pod, here: Sequence[Pod]) -> Iterator[str]:
    for other in here:
        for port in _ports(pod) & _ports(other):
            yield f"host port {port} is taken by {other.metadata.name}"


def _matches(selector: LabelSelector | None, pod: Pod) -> bool:
    """Whether a selector matches; the plans have selectors with `match_labels` only."""
    if selector is None:
        return False
    wanted = selector.match_labels or {}
    return all(pod.metadata.labels.get(key) == value for key, value in wanted.items())


def _apart(pod: Pod) -> Sequence[PodAffinityTerm]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return ()
    return affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution


def _near(pod: Pod) -> Sequence[PodAffinityTerm]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return ()
    return affinity.pod_affinity.required_during_scheduling_ignored_during_execution


def has_affinity_to(pod: Pod, other: Pod) -> bool:
    """Whether a required affinity term of a pod matches the other pod."""
    return any(_matches(term.label_selector, other) for term in _near(pod))


def _place(nodes: Mapping[str, Node], pod: Pod, key: str) -> str | None:
    node = nodes.get(pod.spec.node_name)
    return None if node is None else node.metadata.labels.get(key)


def _is_same_place(
    labels: Mapping[str, str], nodes: Mapping[str, Node], other: Pod, term: PodAffinityTerm
) -> bool:
    place = labels.get(term.topology_key)
    return place is not None and _place(nodes, other, term.topology_key) == place


def _neighbour_objections(
    pod: Pod, node: Node, nodes: Mapping[str, Node], others: Sequence[Pod]
) -> Iterator[str]:
    labels = node.metadata.labels
    for other in others:
        for term in _apart(pod):
            if _is_same_place(labels, nodes, other, term) and _matches(term.label_selector, other):
                yield f"its anti-affinity matches {other.metadata.name}"
        for term in _apart(other):
            if _is_same_place(labels, nodes, other, term) and _matches(term.label_selector, pod):
                yield f"the anti-affinity of {other.metadata.name} matches it"
    for term in _near(pod):
        wanted = [each for each in others if _matches(term.label_selector, each)]
        places = {_place(nodes, each, term.topology_key) for each in wanted} - {None}
        place = node.metadata.labels.get(term.topology_key)
        is_first = not places and _matches(term.label_selector, pod)
        if place is None or (place not in places and not is_first):
            yield "no pod there matches its affinity"


def _spread_objections(
    pod: Pod, node: Node, nodes: Mapping[str, Node], others: Sequence[Pod]
) -> Iterator[str]:
    for constraint in pod.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable != "DoNotSchedule":
            continue
        key = constraint.topology_key
        wanted = (pod.spec.node_selector or {}).items()
        counted = {
            name
            for name, each in nodes.items()
            if key in each.metadata.labels
            and all(each.metadata.labels.get(label) == value for label, value in wanted)
        }
        counts = {nodes[name].metadata.labels[key]: 0 for name in counted}
        for each in others:
            if (
                each.spec.node_name in counted
                and each.metadata.deletion_timestamp is None
                and _matches(constraint.label_selector, each)
            ):
                counts[nodes[each.spec.node_name].metadata.labels[key]] += 1
        place = node.metadata.labels.get(key)
        if place not in counts:
            yield f"{key} of {node.metadata.name} is no eligible domain"
            continue
        itself = 1 if _matches(constraint.label_selector, pod) else 0
        skew = counts[place] + itself - min(counts.values())
        if skew > constraint.max_skew:
            yield f"the skew over {key} would be {skew}"
