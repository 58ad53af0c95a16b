"""NodeResourcesFit: reject nodes without room for the pod, and score the others.

docs/reference/05 §7.8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.api import DeviceClass, Pod
from kubesched.api.pod_requests import PodRequestOptions, pod_nonzero_requested, pod_requested
from kubesched.api.resource_amounts import Resources
from kubesched.api.resource_names import CPU, MEMORY, is_extended_resource_name
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    NodeView,
    Plugin,
    PodGroupAssignments,
    PodGroupInfo,
    PodInfo,
    PodPart,
    PodsOnNode,
    QueueingHint,
    Reads,
    Rejections,
    StateNotFoundError,
    Status,
)
from kubesched.framework.explaining import Explaining
from kubesched.framework.pod_limits import MOST_RESOURCES
from kubesched.scheduler.config.args import NodeResourcesFitArgs
from kubesched.scheduler.config.plugin_names import NODE_RESOURCES_FIT
from kubesched.scheduler.plugins.helpers.device_classes import DeviceClassResolver
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled
from kubesched.scheduler.plugins.helpers.missing_state import reject_all
from kubesched.scheduler.plugins.helpers.resource_usage import TrackedResources
from kubesched.scheduler.plugins.node_resources_fit import hints
from kubesched.scheduler.plugins.node_resources_fit.filtering import (
    Demand,
    find_rejections,
    node_status,
)
from kubesched.scheduler.plugins.node_resources_fit.resource_scorers import (
    MostAllocated,
    make_resource_scorer,
)

__all__ = ["NodeResourcesFit"]

PRE_FILTER_KEY = "PreFilterNodeResourcesFit"
PRE_SCORE_KEY = "PreScoreNodeResourcesFit"
_PLACEMENT_KEY = "PlacementScoreNodeResourcesFit"

# Scoring ignores requests on the pod level, as in the reference.
_SCORED = PodRequestOptions(pod_level=False)


class NodeResourcesFit(Plugin):
    """Filter nodes by free resources; score them by the configured strategy."""

    name = NODE_RESOURCES_FIT
    placement_score_reads_nodes = False
    args_type = NodeResourcesFitArgs
    reads = Reads(
        pod=PodPart.CONTAINERS,
        pods_on_node=PodsOnNode.TOTALS,
        other_nodes=False,
        objects=(DeviceClass,),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        config: NodeResourcesFitArgs = args if args is not None else NodeResourcesFitArgs()
        self._ignored_resources = frozenset(config.ignored_resources)
        self._ignored_groups = frozenset(config.ignored_resource_groups)
        strategy = config.scoring_strategy
        assert strategy is not None, "validated: there is a strategy"
        self._scorer = make_resource_scorer(strategy)
        # Placements are always ranked by this strategy, whatever the strategy for nodes is.
        self._placement_scorer = MostAllocated(strategy)
        self._tracked = TrackedResources(strategy.resources, handle, with_defaults=True)
        self._score_of = self._tracked.scoring_by(self._scorer.score)
        self.reads = replace(self.reads, objects=self._tracked.objects_read)
        self._options = PodRequestOptions(pod_level=feature_enabled(handle, "PodLevelResources"))
        self._has_device_classes = feature_enabled(handle, "DRAExtendedResource")
        self._classes = DeviceClassResolver(handle)
        # The requests of the previous pod, if no device class can serve any, and their demand.
        self._last_plain: Resources | None = None
        self._last_demand: Demand | None = None

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        requested = pod_info.plain_requested or pod_requested(pod_info.pod, self._options)
        if requested is self._last_plain:  # pods of one workload share the object
            state.write(PRE_FILTER_KEY, self._last_demand)
            return SUCCESS
        demand = Demand.from_resources(requested, self._classes.served, self._is_ignored)
        if (count := len(demand.amounts)) > MOST_RESOURCES:
            return Status.unresolvable(f"{count} resources, of which {MOST_RESOURCES} are allowed")
        if not requested.scalar:
            self._last_plain, self._last_demand = requested, demand
        state.write(PRE_FILTER_KEY, demand)
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        try:
            demand = state.read(PRE_FILTER_KEY)
        except StateNotFoundError as exc:
            return _missing(exc)
        return node_status(demand, node)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        try:
            demand = state.read(PRE_FILTER_KEY)
        except StateNotFoundError as exc:
            return reject_all(nodes, _missing(exc))
        return find_rejections(demand, nodes)

    def _is_ignored(self, name: str) -> bool:
        if not self._ignored_resources and not self._ignored_groups:
            return False
        return is_extended_resource_name(name) and (
            name in self._ignored_resources or name.partition("/")[0] in self._ignored_groups
        )

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        if pod_info.plain_requested is not None and self._tracked.names == (CPU, MEMORY):
            state.write(PRE_SCORE_KEY, pod_info.nonzero_requested)
        else:
            state.write(PRE_SCORE_KEY, self._scored_requests(pod_info.pod))
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return self._score_of(self._requested(state, pod), node)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        columns = self._tracked.columns(self._requested(state, pod), nodes)
        if columns is None:
            return np.zeros(len(nodes), dtype=np.int64)
        return self._scorer.score_nodes(columns)

    def _requested(self, state: CycleState, pod: Pod) -> tuple[int, ...]:
        try:
            requested: tuple[int, ...] = state.read(PRE_SCORE_KEY)
        except StateNotFoundError:
            return self._scored_requests(pod)
        return requested

    def _scored_requests(self, pod: Pod) -> tuple[int, ...]:
        """The amounts that scoring counts, in the order of the configured resources."""
        cpu, memory = pod_nonzero_requested(pod, _SCORED)
        names = self._tracked.names
        if names == (CPU, MEMORY):
            return cpu, memory
        amounts = pod_requested(pod, _SCORED).clone()
        amounts.milli_cpu, amounts.memory = cpu, memory
        return self._tracked.amounts(amounts)

    def score_placement(
        self, state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int:
        try:
            requests: dict[str, tuple[int, ...]] = state.read(_PLACEMENT_KEY)
        except StateNotFoundError:
            requests = {pod.metadata.uid: self._scored_requests(pod) for pod in group.pods}
            state.write(_PLACEMENT_KEY, requests)
        sums = np.array([requests[pod.metadata.uid] for pod in assignments.pods]).sum(axis=0)
        usages = self._tracked.usages_of_all(sums.tolist(), assignments.placement.nodes)
        return self._placement_scorer.score(usages)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        pod_changes = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        events = (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, pod_changes), self._after_pod_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_changes), self._after_node_change
            ),
        )
        if not self._has_device_classes:
            return events
        class_changes = ActionType.ADD | ActionType.UPDATE
        return (
            *events,
            ClusterEventWithHint(
                ClusterEvent(EventResource.DEVICE_CLASS, class_changes),
                self._after_device_class_change,
            ),
        )

    def _after_node_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        requested = pod_requested(pod, self._options)
        demand = Demand.from_resources(requested, self._classes.served)
        return self._unless_beyond_limit(pod, hints.after_node_change(demand, old, new))

    def _after_pod_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        return self._unless_beyond_limit(pod, hints.after_pod_change(pod, old, new))

    def _after_device_class_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        return self._unless_beyond_limit(pod, hints.after_device_class_change(pod, old, new))

    def _unless_beyond_limit(self, pod: Pod, hint: QueueingHint) -> QueueingHint:
        """Return SKIP instead of QUEUE if PreFilter rejects the pod for every node."""
        if hint is not QueueingHint.QUEUE:
            return hint
        requested = pod_requested(pod, self._options)
        if not requested.scalar:
            return hint  # the usual case
        demand = Demand.from_resources(requested, self._classes.served, self._is_ignored)
        return QueueingHint.SKIP if len(demand.amounts) > MOST_RESOURCES else hint

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.node_resources_fit.explaining import (
            NodeResourcesFitExplaining,
        )

        return NodeResourcesFitExplaining()


def _missing(exc: StateNotFoundError) -> Status:
    return Status.failure(f'error reading "{PRE_FILTER_KEY}" from cycleState: {exc}')
