"""DynamicResources: allocate devices for the claims of pods (docs/reference/08)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.api import DeviceClass, Pod, PodSpec, ResourceClaim, ResourceSlice
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kubesched.foundation.util.clock import MINUTE
from kubesched.framework import (
    SKIP,
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Diagnosis,
    EventResource,
    Handle,
    NodeInfo,
    NodeView,
    Plugin,
    PodInfo,
    PodsOnNode,
    PostFilterResult,
    Reads,
    Rejections,
    StateNotFoundError,
    Status,
)
from kubesched.framework.causes import DeviceClaimUnusable
from kubesched.framework.explaining import Explaining
from kubesched.framework.pod_groups import group_cycle_of
from kubesched.scheduler.config.args import DynamicResourcesArgs
from kubesched.scheduler.config.plugin_names import DYNAMIC_RESOURCES
from kubesched.scheduler.plugins.dynamic_resources import scoring
from kubesched.scheduler.plugins.dynamic_resources.claim_deallocation import ClaimDeallocation
from kubesched.scheduler.plugins.dynamic_resources.claim_reservation import ClaimReservation
from kubesched.scheduler.plugins.dynamic_resources.claim_writing import ClaimWriter
from kubesched.scheduler.plugins.dynamic_resources.device_features import DeviceFeatures
from kubesched.scheduler.plugins.dynamic_resources.device_search_results import DeviceSearchCache
from kubesched.scheduler.plugins.dynamic_resources.device_state import DeviceState
from kubesched.scheduler.plugins.dynamic_resources.filtering import DeviceFilter
from kubesched.scheduler.plugins.dynamic_resources.hints import ClaimHints
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import PodDevices
from kubesched.scheduler.plugins.dynamic_resources.pre_filtering import ClaimReader
from kubesched.scheduler.plugins.dynamic_resources.used_claims import (
    UnresolvedClaimError,
    resolve_claims,
)
from kubesched.scheduler.plugins.helpers.device_classes import DeviceClassResolver
from kubesched.scheduler.plugins.helpers.missing_state import reject_all

__all__ = ["DynamicResources"]

STATE_KEY = "DynamicResources"

SEARCH_GOES_ON = "the search for devices takes long and continues with the next attempt"

_NOTHING = PodDevices()
_OF_NODES = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
_BINDING_TIMEOUT_NS = 10 * MINUTE


class DynamicResources(Plugin):
    """Filter nodes by the devices that a pod's claims need, and allocate the devices."""

    name = DYNAMIC_RESOURCES
    args_type = DynamicResourcesArgs
    # Claims change with every placement, so the runtime caches no verdicts of this plugin. The
    # plugin has its own caches, by claim spec, device content and row.
    reads = Reads(
        pods_on_node=PodsOnNode.NOTHING, objects=(DeviceClass, ResourceClaim, ResourceSlice)
    )
    pre_bind_in_parallel = True

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        assert handle is not None, "claims and devices are read through the handle"
        config: DynamicResourcesArgs = args if args is not None else DynamicResourcesArgs()
        features = DeviceFeatures.of(handle)
        timeout_ns = config.binding_timeout_ns or _BINDING_TIMEOUT_NS
        self._filter_timeout_ns = (config.filter_timeout_ns or 0) if features.filter_timeout else 0
        self.devices = DeviceState.of(handle, features)
        cache = DeviceSearchCache(self.devices.inventory, features, self._start_timer)
        self.filtering = DeviceFilter(self.devices, cache)
        writer = ClaimWriter(handle, self.devices)
        self._reservation = ClaimReservation(
            handle, self.devices, self.filtering, writer, timeout_ns
        )
        self._deallocation = ClaimDeallocation(handle, self.devices.groups, writer)
        classes = DeviceClassResolver(handle)
        self._reader = ClaimReader(handle, self.devices, classes, timeout_ns)
        if features.node_allocatable:
            self.reads = replace(self.reads, pods_on_node=PodsOnNode.DETAIL)

    def _start_timer(self) -> Callable[[], bool] | None:
        """Return a function that says whether the time for one node is over.

        The result is None if there is no limit.
        """
        if not self._filter_timeout_ns:
            return None
        clock = self.handle.clock
        until_ns = clock.monotonic_ns() + self._filter_timeout_ns
        return lambda: clock.monotonic_ns() >= until_ns

    def pre_enqueue(self, pod: Pod) -> Status:
        if pod.spec.resource_claims:
            try:
                resolve_claims(pod, self.devices.claims, self.devices.groups)
            except UnresolvedClaimError as exc:
                return Status.unresolvable(str(exc), causes=(DeviceClaimUnusable(),))
        return SUCCESS

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        hints = ClaimHints(self.devices.claims, self.devices.groups)
        appears = ActionType.ADD | ActionType.UPDATE
        node_changes = (
            ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        )
        groups: tuple[ClusterEventWithHint, ...] = ()
        if self.devices.features.group_claims:
            added = ClusterEvent(EventResource.POD_GROUP, ActionType.ADD)
            groups = (ClusterEventWithHint(added, hints.after_group_added),)
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, node_changes)),
            ClusterEventWithHint(
                ClusterEvent(EventResource.RESOURCE_CLAIM, appears), hints.after_claim_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
                hints.after_pod_change,
            ),
            ClusterEventWithHint(ClusterEvent(EventResource.DEVICE_CLASS, appears)),
            ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_SLICE, appears)),
            *groups,
        )

    def concerns(self, spec: PodSpec) -> bool:
        return bool(spec.resource_claims) or _may_request_devices(spec)

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        # Even an empty state matters: PostFilter treats a missing one as an error.
        state.write(STATE_KEY, _NOTHING)
        if not pod_info.pod.spec.resource_claims and not pod_info.requested.scalar:
            return SKIP
        data = self._reader.read(pod_info, group_cycle_of(state))
        if data is None:
            return SKIP
        if isinstance(data, Status):
            return data
        state.write(STATE_KEY, data)
        self.filtering.budget.begin(may_pause=state.may_pause)
        if self.filtering.node_allocatable is not None:
            state.asks_every_node = True
            state.adjust_assumed = partial(self._with_charged_resources, data)
        elif self.filtering.may_fail(data, pod_info.pod, nodes):
            # An error on any node ends the attempt, so no node may be skipped.
            state.asks_every_node = True
        if self.filtering.budget.is_exceeded:
            state.is_paused = True
            return Status.failure(SEARCH_GOES_ON)
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        data = _read_state(state)
        return data if isinstance(data, Status) else self.filtering.filter(data, pod, node)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        data = _read_state(state)
        if isinstance(data, Status):
            return reject_all(nodes, data)
        return self.filtering.filter_nodes(data, pod, nodes)

    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        data = _read_state(state)
        if isinstance(data, Status):
            return PostFilterResult(data)
        return PostFilterResult(self._deallocation.run(data, pod_info.pod))

    def uniform_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> int | None:
        data = _read_state(state)
        return None if isinstance(data, Status) or data.has_priorities else 0

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        data = _read_state(state)
        if isinstance(data, Status) or not data.has_priorities:
            return 0
        return scoring.score_node(self.filtering, data, pod, node)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        data = _read_state(state)
        if isinstance(data, Status) or not data.has_priorities:
            return np.zeros(len(nodes), dtype=np.int64)
        return scoring.score_nodes(self.filtering, data, pod, nodes)

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return scoring.normalized(scores)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        data = _read_state(state)
        if isinstance(data, Status):
            return data
        if not data.claims:
            return SUCCESS
        node = self.handle.snapshot.get(node_name)
        return self._reservation.reserve(data, pod, node, group_cycle_of(state))

    def _with_charged_resources(self, data: PodDevices, pod: Pod, node_name: str) -> Pod:
        """Return the pod with the node resources that its claims take there."""
        node = self.handle.snapshot.get(node_name)
        if node is None:
            return pod
        return self._reservation.with_charged_resources(data, pod, node)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        data = _read_state(state)
        if not isinstance(data, Status) and data.claims:
            self._reservation.unreserve(data, pod, group_cycle_of(state))

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        data = _read_state(state)
        if isinstance(data, Status):
            return data
        return SUCCESS if data.claims else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        data = _read_state(state)
        if isinstance(data, Status):
            return data
        return await self._reservation.pre_bind(data, pod, node_name)

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.dynamic_resources.explaining import (
            DynamicResourcesExplaining,
        )

        return DynamicResourcesExplaining(self.devices)


def _read_state(state: CycleState) -> PodDevices | Status:
    """Return what PreFilter wrote to the state."""
    if DYNAMIC_RESOURCES in state.skip_filter:
        return _NOTHING  # the search may skip PreFilter for a pod that requests no devices
    try:
        data: PodDevices = state.read(STATE_KEY)
    except StateNotFoundError as exc:
        return Status.failure(exc)
    return data


def _may_request_devices(spec: PodSpec) -> bool:
    """Whether a request names a resource that devices could serve.

    Does not add up requests.
    """
    if spec.overhead or spec.resources is not None:
        return True
    containers = (*spec.containers, *spec.init_containers)
    return any(not each.resources.requests.keys() <= _OF_NODES for each in containers)
