"""NodeResourceTopologyMatch: place pods where the kubelet can align their NUMA resources.

docs/contrib/node-resource-topology.md describes the behaviour.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.contrib.node_resource_topology.alignment import aligns, aligns_on
from kubesched.contrib.node_resource_topology.alignment_causes import (
    BeingBound,
    NotAligned,
    TopologyMissing,
)
from kubesched.contrib.node_resource_topology.pod_needs import PodNeeds
from kubesched.contrib.node_resource_topology.topology_cache import TopologyCache
from kubesched.contrib.node_resource_topology.zone_groups import combined_score, combined_scores
from kubesched.contrib.node_resource_topology.zone_panel import zone_panel
from kubesched.contrib.node_resource_topology.zone_scores import zone_score, zone_scores
from kubesched.contrib.node_resource_topology.zones import (
    NODE_TOPOLOGIES,
    NODE_TOPOLOGY_KIND,
    ZoneColumns,
)
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
    PodPart,
    PodsOnNode,
    Reads,
    Rejections,
    StateNotFoundError,
    Status,
)

__all__ = ["NodeResourceTopologyMatch", "NodeResourceTopologyMatchArgs"]

_LEAST_NUMA_NODES: Final = "LeastNUMANodes"
_STRATEGIES: Final = (
    "MostAllocated",
    "BalancedAllocation",
    "LeastAllocated",
    _LEAST_NUMA_NODES,
)


NOT_ALIGNED: Final = Status.unschedulable("cannot align pod", causes=(NotAligned(),))
UNKNOWN: Final = Status.unschedulable(
    "node has no NodeResourceTopology", causes=(TopologyMissing(),)
)
BEING_BOUND: Final = Status.unschedulable("invalid node topology data", causes=(BeingBound(),))
_VERDICTS: Final = (NOT_ALIGNED, BEING_BOUND, UNKNOWN)


class WeightedResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int = 1


class ZoneScoringStrategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How zones are scored."""

    type: str = "LeastAllocated"
    resources: tuple[WeightedResource, ...] = ()

    def __post_init__(self) -> None:
        if self.type not in _STRATEGIES:
            raise ValueError(f"type must be one of {', '.join(_STRATEGIES)}, not {self.type!r}")


class TopologyCacheArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Accepted for compatibility, without effect: this plugin watches pods of all schedulers."""

    foreign_pods_detect: str = "All"
    resync_method: str = "Autodetect"
    informer_mode: str = "Dedicated"
    resync_scope: str = "All"


class NodeResourceTopologyMatchArgs(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments of NodeResourceTopologyMatch."""

    scoring_strategy: ZoneScoringStrategy = ZoneScoringStrategy()
    # 0: the topology is used as reported; more: see `TopologyCache`.
    cache_resync_period_seconds: int = 0
    # Whether a node is rejected while another pod is being bound to it.
    discard_reserved_nodes: bool = False
    cache: TopologyCacheArgs = TopologyCacheArgs()
    preemption_mode: str = "Disabled"
    # The verdict on nodes without a NodeResourceTopology for pods that need zones.
    missing_topology_data_policy: Literal["Allow", "Deny", "Reject"] = "Allow"


class NodeResourceTopologyMatch(Plugin):
    """Filter and score nodes by the free resources of their NUMA nodes."""

    name = "NodeResourceTopologyMatch"
    args_type = NodeResourceTopologyMatchArgs
    custom_kinds = (NODE_TOPOLOGY_KIND.kind,)
    # Other changes that invalidate answers are counted by the cache of topologies: `cache_version`.
    reads = Reads(
        pod=PodPart.CONTAINERS,
        pods_on_node=PodsOnNode.SPECS,
        other_nodes=False,
        objects=(),
    )

    def __init__(
        self, args: NodeResourceTopologyMatchArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args or NodeResourceTopologyMatchArgs(), handle)
        given: NodeResourceTopologyMatchArgs = self.args
        self._weights = {each.name: each.weight for each in given.scoring_strategy.resources}
        self._denies_unknown = given.missing_topology_data_policy != "Allow"
        discards = given.discard_reserved_nodes
        reserves = given.cache_resync_period_seconds > 0 and not discards
        if handle is None:
            self._cache = TopologyCache(None, reserves=reserves, discards=discards)
        else:
            self._cache = handle.shared.get(
                f"node topologies {reserves} {discards}",
                lambda: TopologyCache(handle, reserves=reserves, discards=discards),
            )

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        needs = PodNeeds.of(pod_info.pod)
        state.write(self.name, needs)
        return SUCCESS if needs.concerns_zones else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        if self._cache.is_discarded(node.name):
            return BEING_BOUND
        topology = self._cache.topology_of(node.name)
        if topology is None:
            return UNKNOWN if self._denies_unknown else SUCCESS
        needs = _needs(state, self.name, pod)
        offered = [name for name in needs.whole if node.allocatable.amount(name) > 0]
        fits = aligns_on(needs, topology, self._cache.reserved_on(node.name), offered)
        return SUCCESS if fits else NOT_ALIGNED

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        needs = _needs(state, self.name, pod)
        cache = self._cache

        def rejected(view: NodeView) -> NDArray[np.int64]:
            offers = {name: view.allocatable(name) > 0 for name in needs.whole}
            columns = cache.columns(view).at(view.rows, needs.whole)
            codes = (~aligns(needs, columns, offers)).astype(np.int64)
            return np.where(~columns.is_known, 3, codes) if self._denies_unknown else codes

        codes = cache.answers(("filter", self._denies_unknown, needs.key), nodes, rejected).astype(
            np.uint8
        )
        discarded = cache.discarded(nodes)
        if discarded is not None:
            codes[discarded] = 2
        return Rejections(codes, _VERDICTS) if codes.any() else Rejections.none()

    def ignores(self, state: CycleState, pod: Pod, other: PodInfo) -> bool:
        """Return True: the topology, not the pods on a node, says which resources are available."""
        return True

    def cache_version(self, nodes: NodeView) -> Hashable:
        return self._cache.version

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        needs = _needs(state, self.name, pod)
        if not needs.is_guaranteed:
            return 100
        topology, reserved = self._cache.topology_of(node.name), self._cache.reserved_on(node.name)
        if topology is None:
            return 0
        strategy = self.args.scoring_strategy.type
        if strategy == _LEAST_NUMA_NODES:
            return combined_score(needs, topology, reserved)
        return zone_score(strategy, needs, topology, reserved, self._weights)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        needs = _needs(state, self.name, pod)
        if not needs.is_guaranteed:
            return np.full(len(nodes), 100, dtype=np.int64)
        cache, strategy = self._cache, self.args.scoring_strategy
        return cache.answers(
            (strategy, needs.key),
            nodes,
            lambda view: self._scores(needs, cache.columns(view).at(view.rows, needs.whole)),
        )

    def _scores(self, needs: PodNeeds, columns: ZoneColumns) -> NDArray[np.int64]:
        strategy = self.args.scoring_strategy.type
        if strategy == _LEAST_NUMA_NODES:
            return combined_scores(needs, columns)
        return zone_scores(strategy, needs, columns, self._weights)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self._cache.reserve(pod, node_name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._cache.unreserve(pod)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        changed = ActionType.ADD | ActionType.UPDATE
        events = (
            ClusterEvent(EventResource.POD, ActionType.DELETE),
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
            ClusterEvent(NODE_TOPOLOGIES, changed),
        )
        return tuple(ClusterEventWithHint(event) for event in events)

    def panels(self) -> Sequence[Panel]:
        return (zone_panel(self._cache, self.handle.snapshot.nodes.names),)

    def explaining(self) -> Explaining:
        from kubesched.contrib.node_resource_topology.explaining import TopologyExplaining

        return TopologyExplaining(self._cache)


def _needs(state: CycleState, key: str, pod: Pod) -> PodNeeds:
    """Return the needs of the pod, from PreFilter if it ran in this attempt."""
    try:
        needs: PodNeeds = state.read(key)
    except StateNotFoundError:
        return PodNeeds.of(pod)
    return needs
