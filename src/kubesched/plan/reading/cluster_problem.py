"""Reads the packing problem of a cluster.

The scheduler's own filters determine on which nodes a class of pods may be placed; they run on a
model of the cluster without the movable pods. Only rules between pods are part of the problem
itself, because every move changes their result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import controller_of, is_terminating, pod_key
from kubesched.api.resource_amounts import Resources
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.verdicts import find_all_verdicts
from kubesched.foundation.client.object_table import ObjectTable
from kubesched.framework import PodInfo
from kubesched.plan.packing.packing_problem import Headroom, PackingProblem
from kubesched.plan.reading.failure_domains import survival_headroom
from kubesched.plan.reading.pair_rules import PairRules, PodTraits
from kubesched.plan.reading.pinned_pods import Pin, follows_node, why_pinned
from kubesched.plan.reading.planning_policy import PlanningPolicy
from kubesched.plan.reading.pod_budgets import BudgetRoom, budgets_of, read_budgets
from kubesched.scheduler.config.plugin_names import (
    INTER_POD_AFFINITY,
    NODE_RESOURCES_FIT,
    POD_TOPOLOGY_SPREAD,
)
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS

__all__ = [
    "PRICE_UNITS",
    "ClusterProblem",
    "MovablePod",
    "PinOf",
    "PinnedPod",
    "price_of",
    "read_problem",
]

_PODS: Final = "pods"
_PAIRS: Final = (INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD)
_CONTROL_PLANE: Final = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)
_SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
PRICE_UNITS: Final = 10_000  # a price has four decimal places

Numbers = NDArray[np.int64]


class MovablePod(NamedTuple):
    """A pod that may be moved."""

    key: str  # namespace/name
    pod: Pod
    number: int  # of its class
    node: int
    owner: str  # the uid of its controller
    budget: int  # the number of its budget, or -1


class PinnedPod(NamedTuple):
    """A pod that stays: why, and on which node."""

    pin: Pin
    node: str


class ClusterProblem(NamedTuple):
    """The packing problem of a cluster, and the objects to which its numbers refer."""

    problem: PackingProblem
    pods: Sequence[MovablePod]
    budgets: Sequence[BudgetRoom]
    node_number: Mapping[str, int]
    pinned: Mapping[str, PinnedPod]
    kept_because: Mapping[str, str]  # nodes that cannot be emptied, and the reason


class _Placed(NamedTuple):
    info: PodInfo
    node: int
    pin: Pin | None  # why it stays; None if it may move
    follows: bool
    budget: int = -1


# Returns why a pod cannot be moved; None if it can.
PinOf = Callable[[Pod, ObjectTable, PlanningPolicy, Collection[str]], Pin | None]


def read_problem(
    model: ClusterModel, policy: PlanningPolicy, pin_of: PinOf = why_pinned
) -> ClusterProblem:
    """Read the problem from the current state of the cluster.

    Raises:
        PluginError: a plugin failed.
    """
    nodes = sorted(model.objects.list(Node), key=lambda node: node.metadata.name)
    number_of = {node.metadata.name: number for number, node in enumerate(nodes)}
    budgets = read_budgets(model.objects)
    placed = _sorted_pods(model, number_of, policy, budgets, pin_of)
    fixed = [each for each in placed if each.pin is not None or each.follows]
    movable = [each for each in placed if each.pin is None and not each.follows]
    rules = PairRules(model, nodes)
    rules.collect(each.info for each in placed)
    pods, first, traits = _classify(model, movable, rules)
    fixed_traits = [(each.node, rules.traits(each.info.pod)) for each in fixed]
    kept_because = _kept_nodes(nodes, fixed, policy)
    names, allocatable = _allocatable(nodes)
    demand = _demand(first, names, model)
    room = allocatable.copy()
    for each, row in zip(fixed, _demand([e.info for e in fixed], names, model), strict=True):
        room[each.node] -= row
    allowed, possibly = _allowed(model, nodes, [info.pod for info in first], movable)
    current = np.zeros((len(first), len(nodes)), dtype=np.int32)
    for pod_of in pods:
        current[pod_of.number, pod_of.node] += 1
    problem = PackingProblem(
        tuple(names),
        tuple(number_of),
        room,
        np.array([node.metadata.name in kept_because for node in nodes], dtype=bool),
        _prices(nodes, policy),
        demand,
        allowed,
        possibly,
        current,
        rules.apart_rules(traits, fixed_traits),
        rules.near_rules(traits, fixed_traits),
        rules.spread_rules(traits, fixed_traits),
        (),
    )
    spare = _headroom(problem, allocatable, policy)
    spare += survival_headroom(problem, nodes, policy.survive, policy.survive_percent)
    problem = problem._replace(headroom=spare)
    pinned = _pinned_pods(fixed, problem.nodes)
    return ClusterProblem(problem, pods, budgets, number_of, pinned, kept_because)


def _pinned_pods(fixed: Sequence[_Placed], nodes: Sequence[str]) -> dict[str, PinnedPod]:
    return {
        pod_key(each.info.pod): PinnedPod(each.pin, nodes[each.node])
        for each in fixed
        if each.pin is not None
    }


def _classify(
    model: ClusterModel, movable: Sequence[_Placed], rules: PairRules
) -> tuple[list[MovablePod], list[PodInfo], list[PodTraits]]:
    """Return the pods with their classes, and for each class its first pod and its traits."""
    has_own_plugins = any(
        plugin.name not in IN_TREE_PLUGINS
        for framework in model.frameworks.values()
        for plugin in framework.filter_plugins
    )
    classes: dict[Hashable, int] = {}
    first: list[PodInfo] = []
    traits: list[PodTraits] = []
    pods: list[MovablePod] = []
    for each in movable:
        pod = each.info.pod
        own = rules.traits(pod)
        key = (_signature(each.info, has_own_plugins), own)
        number = classes.setdefault(key, len(classes))
        if number == len(first):
            first.append(each.info)
            traits.append(own)
        owner = controller_of(pod)
        uid = "" if owner is None else owner.uid
        pods.append(MovablePod(pod_key(pod), pod, number, each.node, uid, each.budget))
    return pods, first, traits


def _sorted_pods(
    model: ClusterModel,
    number_of: Mapping[str, int],
    policy: PlanningPolicy,
    budgets: Sequence[BudgetRoom],
    pin_of: PinOf,
) -> list[_Placed]:
    """Return the pods on nodes ordered by name, and whether each may move."""
    found = []
    for node in model.snapshot.nodes:
        for info in node.pods:
            pod = info.pod
            if is_terminating(pod):
                continue
            if follows_node(pod):
                found.append(_Placed(info, number_of[node.name], None, True))
                continue
            pin = pin_of(pod, model.objects, policy, model.frameworks)
            own = budgets_of(pod, budgets)
            if pin is None and len(own) > 1:
                pin = Pin("several budgets apply to it", "leave one budget for it")
            budget = own[0] if own else -1
            if pin is None and own and not budgets[budget].allowed:
                text = f"budget {budgets[budget].name} allows no eviction"
                pin = Pin(text, "add a replica, or change the budget")
            found.append(_Placed(info, number_of[node.name], pin, False, budget))
    found.sort(key=lambda each: (each.info.pod.metadata.namespace, each.info.pod.metadata.name))
    return found


def _signature(info: PodInfo, has_own_plugins: bool) -> Hashable:
    """Return the fields of a pod that node-level filters read; they define its class."""
    spec, requested = info.pod.spec, info.requested
    affinity = None if spec.affinity is None else spec.affinity.node_affinity
    selection = b""
    if spec.node_selector or affinity is not None or spec.tolerations:
        selection = msgspec.json.encode((spec.node_selector, affinity, spec.tolerations))
    disks = any(each.persistent_volume_claim is not None or _is_disk(each) for each in spec.volumes)
    owner = controller_of(info.pod) if has_own_plugins else None
    return (
        spec.scheduler_name,
        requested.milli_cpu,
        requested.memory,
        requested.ephemeral_storage,
        frozenset(requested.scalar.items()),
        selection,
        spec.host_network,
        info.pod.metadata.uid if disks else "",
        "" if owner is None else owner.uid,
    )


def _is_disk(volume: Any) -> bool:
    return any(
        getattr(volume, name, None) is not None
        for name in ("gce_persistent_disk", "aws_elastic_block_store", "iscsi", "rbd")
    )


def _kept_nodes(
    nodes: Sequence[Node], fixed: Sequence[_Placed], policy: PlanningPolicy
) -> dict[str, str]:
    """Return the nodes that cannot be emptied, and why."""
    kept: dict[str, str] = {}
    for node in nodes:
        metadata = node.metadata
        if policy.kept_nodes.matches(metadata.labels):
            kept[metadata.name] = "excluded by a selector"
        elif any(label in metadata.labels for label in _CONTROL_PLANE):
            kept[metadata.name] = "a node of the control plane"
        elif metadata.annotations.get(_SCALE_DOWN_DISABLED) == "true":
            kept[metadata.name] = f"annotation {_SCALE_DOWN_DISABLED}: true"
        elif metadata.annotations.get(_DO_NOT_DISRUPT) == "true":
            kept[metadata.name] = f"annotation {_DO_NOT_DISRUPT}: true"
    for each in fixed:
        if each.pin is not None:
            name = nodes[each.node].metadata.name
            kept.setdefault(name, f"pod {pod_key(each.info.pod)}: {each.pin.reason}")
    return kept


def _allocatable(nodes: Sequence[Node]) -> tuple[list[str], Numbers]:
    amounts = [Resources.from_resource_list(node.status.allocatable) for node in nodes]
    scalars = sorted({name for each in amounts for name in each.scalar})
    names = ["cpu", "memory", "ephemeral-storage", *scalars, _PODS]
    rows = [
        [
            *(each.amount(name) for name in names[:-1]),
            Resources.allowed_pods(node.status.allocatable),
        ]
        for each, node in zip(amounts, nodes, strict=True)
    ]
    return names, np.array(rows, dtype=np.int64).reshape(len(nodes), len(names))


def _demand(infos: Sequence[PodInfo], names: Sequence[str], model: ClusterModel) -> Numbers:
    rows = np.zeros((len(infos), len(names)), dtype=np.int64)
    for row, info in zip(rows, infos, strict=True):
        framework = model.frameworks.get(info.pod.spec.scheduler_name or "default-scheduler")
        if framework is None or any(
            plugin.name == NODE_RESOURCES_FIT for plugin in framework.filter_plugins
        ):
            row[:] = [*(info.requested.amount(name) for name in names[:-1]), 1]
    return rows


def _allowed(
    model: ClusterModel, nodes: Sequence[Node], pods: Sequence[Pod], movable: Sequence[_Placed]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Run the filters for each class on the cluster without the movable pods."""
    leaving = {each.info.pod.metadata.uid for each in movable}
    rest = model.with_objects(
        each
        for each in model.objects
        if not isinstance(each, Pod)
        or (each.metadata.uid not in leaving and not is_terminating(each))
    )
    view = rest.snapshot.nodes
    position = {name: place for place, name in enumerate(view.names)}
    order = [position[node.metadata.name] for node in nodes]
    allowed = np.ones((len(pods), len(nodes)), dtype=bool)
    possibly = np.ones((len(pods), len(nodes)), dtype=bool)
    for number, pod in enumerate(pods):
        waiting = replace(pod, spec=replace(pod.spec, node_name=""))
        found = find_all_verdicts(rest.framework_of(pod), PodInfo(waiting), view)
        for verdicts in found.by_plugin:
            if verdicts.plugin in _PAIRS:
                continue
            passes = ~verdicts.rejected[order]
            allowed[number] &= passes
            if verdicts.plugin in IN_TREE_PLUGINS:
                possibly[number] &= passes
    return allowed, possibly


def _prices(nodes: Sequence[Node], policy: PlanningPolicy) -> Numbers:
    """Return the price of each node in whole units; without prices each node counts as 1."""
    if not policy.prices and not policy.price_label:
        return np.ones(len(nodes), dtype=np.int64)
    return np.array([price_of(node, policy) for node in nodes], dtype=np.int64)


def price_of(node: Node, policy: PlanningPolicy) -> int:
    """Return the price of a node in units of `PRICE_UNITS`; 1 if the policy has no price for it."""
    labels = node.metadata.labels
    text = labels.get(policy.price_label, "")
    try:
        price = float(text) if text else None
    except ValueError:
        price = None
    for name in (node.metadata.name, labels.get("node.kubernetes.io/instance-type", "")):
        price = policy.prices.get(name, price)
    return round(PRICE_UNITS * (1.0 if price is None else price))


def _headroom(
    problem: PackingProblem, allocatable: Numbers, policy: PlanningPolicy
) -> list[Headroom]:
    """Convert the share that must stay free into sums over the nodes in use."""
    if not policy.spare_percent:
        return []
    needed = problem.totals @ problem.demand
    return [
        Headroom(
            100 * problem.room[:, column] - policy.spare_percent * allocatable[:, column],
            100 * int(needed[column]),
        )
        for column, name in enumerate(problem.resources)
        if name in ("cpu", "memory")
    ]
