"""NetworkOverhead: place pods where the network to the pods that they depend on costs little.

docs/contrib/network-aware.md describes the behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.contrib.network_aware.app_groups import (
    APP_GROUP_KIND,
    APP_GROUP_LABEL,
    APP_GROUPS,
    WORKLOAD_LABEL,
)
from kubesched.contrib.network_aware.application_network import ApplicationNetwork
from kubesched.contrib.network_aware.network_causes import DependenciesTooFar
from kubesched.contrib.network_aware.network_costs import (
    NETWORK_TOPOLOGIES,
    NETWORK_TOPOLOGY_KIND,
)
from kubesched.contrib.network_aware.network_panel import network_panel
from kubesched.contrib.network_aware.places import Distances
from kubesched.framework import (
    SKIP,
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Explaining,
    Handle,
    NodeInfo,
    NodeView,
    Panel,
    Plugin,
    PodInfo,
    QueueingHint,
    Rejections,
    StateNotFoundError,
    Status,
)

__all__ = ["NetworkOverhead", "NetworkOverheadArgs"]

TOO_FAR: Final = Status.unresolvable(
    "node(s) were too far from pods that the pod depends on", causes=(DependenciesTooFar(),)
)


class NetworkOverheadArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of NetworkOverhead."""

    # Where AppGroups and the NetworkTopology are looked for, in this order.
    namespaces: tuple[str, ...] = ("default",)
    # Which of the weights in the NetworkTopology.
    weights_name: str = "UserDefined"
    network_topology_name: str = "nt-default"


class _Reading(NamedTuple):
    """What PreFilter has computed."""

    distances: Distances
    row_of: Mapping[str, int]

    def is_rejected(self, row: int) -> bool:
        return bool(self.distances.excess[row] > 0)


class NetworkOverhead(Plugin):
    """Filter and score nodes by the costs to the pods that a pod depends on."""

    name = "NetworkOverhead"
    args_type = NetworkOverheadArgs
    custom_kinds = (APP_GROUP_KIND.kind, NETWORK_TOPOLOGY_KIND.kind)

    def __init__(
        self, args: NetworkOverheadArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args or NetworkOverheadArgs(), handle)
        given: NetworkOverheadArgs = self.args
        self._network: ApplicationNetwork | None = None
        if handle is not None:
            self._network = ApplicationNetwork(
                handle, given.namespaces, given.network_topology_name, given.weights_name
            )

    def _read(self, pod: Pod, nodes: NodeView) -> _Reading | None:
        distances = None if self._network is None else self._network.distances(pod, nodes)
        return None if distances is None else _Reading(distances, nodes.table.row_of)

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        reading = self._read(pod_info.pod, nodes)
        state.write(self.name, reading)
        return SKIP if reading is None else SUCCESS

    def _reading(self, state: CycleState, pod: Pod) -> _Reading | None:
        """Return what PreFilter has computed; a profile may enable Score without PreFilter."""
        try:
            found: _Reading | None = state.read(self.name)
        except StateNotFoundError:
            found = None if self._network is None else self._read(pod, self.handle.snapshot.nodes)
            state.write(self.name, found)
        return found

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        reading = self._reading(state, pod)
        if reading is None or (row := reading.row_of.get(node.name)) is None:
            return SUCCESS
        return TOO_FAR if reading.is_rejected(row) else SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        reading = self._reading(state, pod)
        if reading is None:
            return Rejections.none()
        return Rejections.where(nodes.at(reading.distances.excess) > 0, TOO_FAR)

    def ignores(self, state: CycleState, pod: Pod, other: PodInfo) -> bool:
        """No pod is evicted to bring another one nearer."""
        return True

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        return SKIP if self._reading(state, pod_info.pod) is None else SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return the sum of the costs to all pods that the pod depends on."""
        reading = self._reading(state, pod)
        if reading is None or (row := reading.row_of.get(node.name)) is None:
            return 0
        return int(reading.distances.cost[row])

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        reading = self._reading(state, pod)
        if reading is None:
            return np.zeros(len(nodes), dtype=np.int64)
        found: NDArray[np.int64] = nodes.at(reading.distances.cost)
        return found

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        lowest, highest = int(scores.min()), int(scores.max())
        if highest == lowest:
            return np.full_like(scores, 100 if highest else 0)
        share = 100.0 * (scores - lowest) / (highest - lowest)
        scaled: NDArray[np.int64] = 100 - share.astype(np.int64)
        return scaled

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        changed = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.POD, pods), self._after_pod_change),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, nodes)),
            ClusterEventWithHint(ClusterEvent(APP_GROUPS, changed), self._after_group_change),
            ClusterEventWithHint(ClusterEvent(NETWORK_TOPOLOGIES, changed)),
        )

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """A pod that this one depends on was placed or has ended, or its labels have changed."""
        if new is not None and new.metadata.uid == pod.metadata.uid:
            return QueueingHint.QUEUE
        found = None if self._network is None else self._network.dependencies_of(pod)
        if found is None:
            return QueueingHint.QUEUE
        group, dependencies = found
        workloads = {each.workload for each in dependencies}
        for each in (old, new):
            labels = {} if each is None or not each.spec.node_name else each.metadata.labels
            if (
                labels.get(APP_GROUP_LABEL) == group.name
                and labels.get(WORKLOAD_LABEL) in workloads
            ):
                return QueueingHint.QUEUE
        return QueueingHint.SKIP

    def _after_group_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        changed = new if new is not None else old
        is_own = changed.metadata.name == pod.metadata.labels.get(APP_GROUP_LABEL)
        return QueueingHint.QUEUE if is_own else QueueingHint.SKIP

    def panels(self) -> Sequence[Panel]:
        if self._network is None:
            return ()
        nodes = self.handle.snapshot.nodes
        return (network_panel(self._network, self._network.places(nodes), nodes),)

    def explaining(self) -> Explaining:
        from kubesched.contrib.network_aware.explaining import NetworkExplaining

        return NetworkExplaining(self._network)
