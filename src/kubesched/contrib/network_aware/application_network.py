"""What NetworkOverhead and its explanations read: applications, costs and the places of nodes."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.api import Pod
from kubesched.contrib.network_aware.app_groups import (
    WORKLOAD_LABEL,
    AppGroup,
    WorkloadDependency,
    app_groups,
)
from kubesched.contrib.network_aware.network_costs import network_topologies
from kubesched.contrib.network_aware.places import Distances, NodePlaces
from kubesched.framework import Handle, NodeView

__all__ = ["ApplicationNetwork"]


class ApplicationNetwork:
    """The AppGroups and the NetworkTopology that a profile's arguments select."""

    def __init__(
        self, handle: Handle, namespaces: tuple[str, ...], topology: str, weights: str
    ) -> None:
        self._groups, self._topologies = app_groups(handle), network_topologies(handle)
        self._namespaces = namespaces or ("default",)
        self._topology, self._weights = topology, weights
        self._places = NodePlaces()

    def __iter__(self) -> Iterator[AppGroup]:
        return iter(self._groups)

    def group_of(self, pod: Pod) -> AppGroup | None:
        """Return the AppGroup that the pod names."""
        return self._groups.group_of(pod, self._namespaces)

    def dependencies_of(self, pod: Pod) -> tuple[AppGroup, tuple[WorkloadDependency, ...]] | None:
        """Return the AppGroup of a pod and what it depends on, or None if that is nothing."""
        group = self.group_of(pod)
        if group is None:
            return None
        found = group.dependencies.get(pod.metadata.labels.get(WORKLOAD_LABEL, ""), ())
        return (group, found) if found else None

    def places(self, nodes: NodeView) -> NodePlaces:
        """Return the places of the nodes, with the current costs."""
        costs = self._topologies.find(self._topology, self._namespaces, self._weights)
        self._places.update(nodes, costs)
        return self._places

    def distances(self, pod: Pod, nodes: NodeView) -> Distances | None:
        """Return the distances of all rows to what the pod depends on, or None without any."""
        found = self.dependencies_of(pod)
        if found is None:
            return None
        group, dependencies = found
        return self.places(nodes).distances(nodes, group.name, dependencies)
