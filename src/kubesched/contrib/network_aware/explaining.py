"""What `kubesched explain` shows about pods that are too far from what they depend on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kubesched.api.custom_kinds import CustomObject
from kubesched.contrib.network_aware.app_groups import (
    APP_GROUP_KIND,
    APP_GROUP_LABEL,
    AppGroup,
    WorkloadDependency,
)
from kubesched.contrib.network_aware.application_network import ApplicationNetwork
from kubesched.contrib.network_aware.places import NodePlaces, pods_of
from kubesched.framework import (
    Cause,
    Detail,
    Explaining,
    NodeView,
    RejectedNodes,
    Remedy,
    RuleKind,
)

__all__ = ["NetworkExplaining"]

_LARGEST_COST = 10_000  # that the schema allows


class _FarPods(NamedTuple):
    """Pods of one dependency that are too far from a node."""

    dependency: WorkloadDependency
    pods: int
    cost: int  # the largest of them
    needed: int  # the maxNetworkCost with which all of them would be near

    @property
    def text(self) -> str:
        number = "1 pod" if self.pods == 1 else f"{self.pods} pods"
        return (
            f"{number} of {self.dependency.workload} at a cost of {self.cost}, "
            f"where {self.dependency.max_cost} is allowed"
        )


class _Nearest(NamedTuple):
    """Of the rejected nodes, one with the fewest pods that are too far."""

    group: AppGroup
    node: str
    excess: int  # how many more pods are too far than near
    far_pods: tuple[_FarPods, ...]


class NetworkExplaining(Explaining):
    """Compares the costs to the pods of each dependency with maxNetworkCost."""

    kind = RuleKind.NEIGHBOURS

    def __init__(self, network: ApplicationNetwork | None) -> None:
        self._network = network

    def _nearest(self, rejected: RejectedNodes) -> _Nearest | None:
        network = self._network
        found = None if network is None else network.dependencies_of(rejected.pod)
        if network is None or found is None:
            return None
        group, dependencies = found
        nodes = rejected.nodes
        places = network.places(nodes)
        distances = places.distances(nodes, group.name, dependencies)
        if distances is None:
            return None
        rows = {node.name: nodes.table.row_of[node.name] for node in rejected.by_name}
        name = min(rows, key=lambda each: int(distances.excess[rows[each]]))
        far = (_far_pods(places, nodes, group, each, rows[name]) for each in dependencies)
        excess = int(distances.excess[rows[name]])
        return _Nearest(group, name, excess, tuple(each for each in far if each.pods))

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        nearest = self._nearest(rejected)
        if nearest is None:
            return Detail()
        far = "; ".join(each.text for each in nearest.far_pods)
        return Detail(
            asked=", ".join(
                f"{each.dependency.workload} within {each.dependency.max_cost}"
                for each in nearest.far_pods
            ),
            available=f"{nearest.excess} more too far than near on {nearest.node}",
            sentence=f"of the pods that it depends on, more are too far than near: from "
            f"{nearest.node} {far}",
            brief="too far from pods that it depends on",
        )

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        pod, nearest = rejected.pod, self._nearest(rejected)
        if nearest is None:
            return
        group = nearest.group
        stored = rejected.objects.get(APP_GROUP_KIND.type, group.name, group.namespace)
        raised = _raised(nearest)
        if stored is not None and raised:
            limits = " and ".join(f"{each.dependency.workload} to {each.needed}" for each in raised)
            edits = [
                {
                    "op": "replace",
                    "path": "/spec/workloads/{}/dependencies/{}/maxNetworkCost".format(
                        *each.dependency.position
                    ),
                    "value": each.needed,
                }
                for each in raised
            ]
            yield Remedy(
                f"raise maxNetworkCost of {limits} in the AppGroup {group.name}",
                float(len(raised)),
                pod,
                changes=(_with_limits(stored, raised),),
                command=f"kubectl patch appgroups.appgroup.diktyo.x-k8s.io {group.name} "
                f"-n {group.namespace} --type=json -p '{json.dumps(edits)}'",
            )
        labels = {key: text for key, text in pod.metadata.labels.items() if key != APP_GROUP_LABEL}
        alone = replace(pod, metadata=replace(pod.metadata, labels=labels))
        yield Remedy("remove the pod from its AppGroup", 1.5, alone)


def _far_pods(
    places: NodePlaces, nodes: NodeView, group: AppGroup, dependency: WorkloadDependency, row: int
) -> _FarPods:
    """Return the pods of a dependency that are too far from the node in a row."""
    column = nodes.pods.count(pods_of(group.name, dependency.workload)).column
    place, pods, costs, needed = int(places.place_of[row]), 0, [0], [0]
    for other in np.flatnonzero(column).tolist():
        links = places.links_to(int(places.place_of[other]))
        if other != row and links.are_far(dependency.max_cost)[place]:
            pods += int(column[other])
            costs.append(int(links.cost[place]))
            needed.append(int(links.needed[place]))
    return _FarPods(dependency, pods, max(costs), max(needed))


def _raised(nearest: _Nearest) -> list[_FarPods]:
    """Return the fewest dependencies to raise, the cheapest first, until no more are far."""
    excess, chosen = nearest.excess, []
    possible = [each for each in nearest.far_pods if each.needed <= _LARGEST_COST]
    for each in sorted(possible, key=lambda each: each.needed - each.dependency.max_cost):
        if excess > 0:
            excess -= 2 * each.pods
            chosen.append(each)
    return chosen if excess <= 0 else []


def _with_limits(stored: CustomObject, raised: list[_FarPods]) -> CustomObject:
    workloads = [dict(each) for each in stored.spec["workloads"]]
    for each in raised:
        workload, number = each.dependency.position
        dependencies = [dict(entry) for entry in workloads[workload]["dependencies"]]
        dependencies[number]["maxNetworkCost"] = each.needed
        workloads[workload]["dependencies"] = dependencies
    return replace(stored, spec={**stored.spec, "workloads": workloads})
