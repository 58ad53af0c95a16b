"""DynamicResources: pods that use resource claims (docs/reference/08).

Devices are not allocated. A pod that needs some is told so and stays pending; for all others
the plugin says what the reference says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api import DeviceClass, Pod, ResourceClaim
from kubesched.config.args import DynamicResourcesArgs
from kubesched.config.plugin_names import DYNAMIC_RESOURCES
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
    PodPart,
    PodsOnNode,
    PostFilterResult,
    Reads,
    Rejections,
    StateNotFoundError,
    Status,
)
from kubesched.plugins.dynamic_resources.claims import UnresolvedClaimError, claims_of
from kubesched.plugins.dynamic_resources.hints import ClaimHints
from kubesched.plugins.helpers.device_classes import DeviceClassResolver
from kubesched.plugins.helpers.missing_state import reject_all

__all__ = ["DynamicResources"]

STATE_KEY = "DynamicResources"

NOT_ALLOCATED = Status.unresolvable("devices for resource claims cannot be allocated yet")
_NO_CLAIMS = PostFilterResult(Status.unschedulable("no new claims to deallocate"))
_STILL_NOT = PostFilterResult(Status.unschedulable("still not schedulable"))

_NOTHING: frozenset[str] = frozenset()


class DynamicResources(Plugin):
    name = DYNAMIC_RESOURCES
    args_type = DynamicResourcesArgs
    reads = Reads(
        pod=PodPart.CONTAINERS | PodPart.RESOURCE_CLAIMS,
        pods_on_node=PodsOnNode.NOTHING,
        other_nodes=False,
        objects=(DeviceClass, ResourceClaim),
    )
    pre_bind_in_parallel = True

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._claims = None if handle is None else handle.lister(ResourceClaim)
        self._classes = DeviceClassResolver(handle)

    # -- in the queue ------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status:
        try:
            self._claims_of(pod)
        except UnresolvedClaimError as exc:
            return Status.unresolvable(str(exc))
        return SUCCESS

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        assert self._claims is not None, "built with a handle"
        hints = ClaimHints(self._claims)
        appears = ActionType.ADD | ActionType.UPDATE
        node_changes = (
            ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        )
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
        )

    # -- finding nodes that fit --------------------------------------------------------

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        # Even an empty note counts: PostFilter takes its absence for an error.
        state.write(STATE_KEY, _NOTHING)
        if pod_info.pod.spec.resource_claims:
            try:
                claims = self._claims_of(pod_info.pod)
            except UnresolvedClaimError as exc:
                return Status.unresolvable(str(exc))
            if claims:
                return NOT_ALLOCATED
        wanted = pod_info.requested.scalar
        if not wanted:
            return SKIP
        served = self._classes.served(name for name, amount in wanted.items() if amount)
        if not served:
            return SKIP
        state.write(STATE_KEY, served)
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        served = _served(state)
        if isinstance(served, Status):
            return served
        # Where the node itself has the resource, a device plugin hands it out.
        has_all = all(node.allocatable.amount(name) > 0 for name in served)
        return SUCCESS if has_all else NOT_ALLOCATED

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        served = _served(state)
        if isinstance(served, Status):
            return reject_all(nodes, served)
        lacking = np.zeros(len(nodes), dtype=bool)
        for name in served:
            lacking |= nodes.allocatable(name) <= 0
        return Rejections.where(lacking, NOT_ALLOCATED)

    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        served = _served(state)
        if isinstance(served, Status):
            return PostFilterResult(served)
        return _STILL_NOT if served else _NO_CLAIMS

    # -- choosing among them -----------------------------------------------------------

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return np.zeros(len(nodes), dtype=np.int64)

    # -- placing the pod ---------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SUCCESS  # a pod that comes this far needs no devices

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SUCCESS

    # -- helpers -----------------------------------------------------------------------

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        if not pod.spec.resource_claims:
            return []
        assert self._claims is not None, "built with a handle"
        return claims_of(pod, self._claims)


def _served(state: CycleState) -> frozenset[str] | Status:
    """Resources of the pod that device classes serve, as PreFilter noted them."""
    try:
        served: frozenset[str] = state.read(STATE_KEY)
    except StateNotFoundError as exc:
        return Status.failure(exc)
    return served
