"""The details that `kubesched explain` shows about pods that fit no NUMA node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from kubesched.api import CPU, Container, Pod
from kubesched.contrib.amounts import as_quantity, shown
from kubesched.contrib.node_resource_topology.alignment_causes import BeingBound, TopologyMissing
from kubesched.contrib.node_resource_topology.pod_needs import PodNeeds
from kubesched.contrib.node_resource_topology.topology_cache import TopologyCache
from kubesched.contrib.node_resource_topology.zones import POD_SCOPE
from kubesched.framework import Cause, Detail, Explaining, RejectedNodes, Remedy

__all__ = ["TopologyExplaining"]


class _Most(NamedTuple):
    """The largest free amount of a resource on one NUMA node, and the name of the node."""

    amount: int
    node: str
    zone: int

    @property
    def place(self) -> str:
        return f"NUMA node {self.zone} of {self.node}"


class TopologyExplaining(Explaining):
    """Compares the requests of the pod with the free resources of NUMA nodes."""

    def __init__(self, cache: TopologyCache) -> None:
        self._cache = cache

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        if isinstance(cause, BeingBound):
            return Detail(sentence="another pod is being bound to the node")
        if isinstance(cause, TopologyMissing):
            return Detail(
                sentence="no NodeResourceTopology says what its NUMA nodes have, and "
                "missingTopologyDataPolicy refuses such nodes",
                brief="without a NodeResourceTopology",
            )
        for name, amount in self._wanted(rejected).items():
            most = self._most(rejected, name)
            if most is None:
                return Detail(
                    asked=f"{shown(name, amount)} {name} of one NUMA node",
                    sentence=f"no NodeResourceTopology lists {name}, of which one NUMA node would "
                    f"have to provide {shown(name, amount)}",
                    brief="not aligned",
                )
            if amount > most.amount:
                return Detail(
                    asked=f"{shown(name, amount)} {name} of one NUMA node",
                    available=f"{shown(name, most.amount)} on {most.place}",
                    sentence=f"it needs {shown(name, amount)} {name} of one NUMA node, and the "
                    f"most that one has left is {shown(name, most.amount)} ({most.place})",
                    brief="not aligned",
                )
        return Detail(
            sentence="no NUMA node has everything at once that a container of the pod requests",
            brief="not aligned",
        )

    def _wanted(self, rejected: RejectedNodes) -> dict[str, int]:
        """Return the largest amount of each resource that must come from one NUMA node."""
        needs = PodNeeds.of(rejected.pod)
        topologies = [self._cache.topology_of(node.name) for node in rejected.view]
        scopes = {each.scope for each in topologies if each is not None}
        parts = [needs.whole] if scopes == {POD_SCOPE} else [*needs.init, *needs.containers]
        wanted: dict[str, int] = {}
        for each in parts:
            for name, amount in each.items():
                if not needs.is_unlimited(name):
                    wanted[name] = max(wanted.get(name, 0), amount)
        return wanted

    def _most(self, rejected: RejectedNodes, name: str) -> _Most | None:
        found: _Most | None = None
        for node in rejected.by_name:
            topology = self._cache.topology_of(node.name)
            if topology is None:
                continue
            for zone, left in topology.left(self._cache.reserved_on(node.name)).items():
                if name in left and (found is None or left[name] > found.amount):
                    found = _Most(left[name], node.name, zone)
        return found

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        pod = rejected.pod
        for name, amount in self._wanted(rejected).items():
            most = self._most(rejected, name)
            if most is not None and 0 < most.amount < amount:
                lower = _limited(pod, name, most.amount)
                text = f"request at most {as_quantity(name, most.amount)} {name} per container"
                yield Remedy(text, 1 - most.amount / amount, lower)
        if PodNeeds.of(pod).is_guaranteed:
            text = "remove the limits of cpu: pods that are not guaranteed are not aligned"
            yield Remedy(text, 1.5, _changed(pod, _without_cpu_limit))


def _limited(pod: Pod, name: str, most: int) -> Pod:
    """Return the pod with its containers' requests of a resource limited to an amount."""
    quantity = as_quantity(name, most)

    def limited(container: Container) -> Container:
        resources = container.resources
        if PodNeeds.of_container(container).get(name, 0) <= most:
            return container
        return replace(
            container,
            resources=replace(
                resources,
                requests={**resources.requests, name: quantity},
                limits={
                    **resources.limits,
                    **({name: quantity} if name in resources.limits else {}),
                },
            ),
        )

    return _changed(pod, limited)


def _without_cpu_limit(container: Container) -> Container:
    resources = container.resources
    # A request that is absent defaults to the limit.
    requests = {**resources.limits, **resources.requests}
    limits = {name: amount for name, amount in resources.limits.items() if name != CPU}
    return replace(container, resources=replace(resources, requests=requests, limits=limits))


def _changed(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    spec = pod.spec
    return replace(
        pod,
        spec=replace(
            spec,
            containers=tuple(map(change, spec.containers)),
            init_containers=tuple(map(change, spec.init_containers)),
        ),
    )
