"""VolumeBinding: reject nodes that cannot reach the pod's volumes or get new ones.

The rules are in docs/reference/07 §5.

Filter does not store the volumes of every node. Reserve finds those of the chosen node again,
unless Filter was called about it last and no volume has changed since. The result is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kubesched.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    StorageClass,
)
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import (
    SKIP,
    SUCCESS,
    ClusterEventWithHint,
    CycleState,
    Handle,
    NodeInfo,
    NodeView,
    Plugin,
    PodInfo,
    PodsOnNode,
    Reads,
    Rejections,
    StateNotFoundError,
    Status,
)
from kubesched.framework.causes import ClaimUnusable
from kubesched.framework.explaining import Explaining
from kubesched.scheduler.config.args import VolumeBindingArgs
from kubesched.scheduler.config.plugin_names import VOLUME_BINDING
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled
from kubesched.scheduler.plugins.helpers.missing_state import reject_all
from kubesched.scheduler.plugins.helpers.volume_claims import VolumeClaimError, needs_claim
from kubesched.scheduler.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.scheduler.plugins.volume_binding.claim_provisioning import Provisioners
from kubesched.scheduler.plugins.volume_binding.column_volume_finder import ColumnVolumeFinder
from kubesched.scheduler.plugins.volume_binding.hints import EVENTS
from kubesched.scheduler.plugins.volume_binding.migration import Migration
from kubesched.scheduler.plugins.volume_binding.pod_claims import (
    PodClaims,
    are_all_bound,
    claims_problem,
    group_claims,
)
from kubesched.scheduler.plugins.volume_binding.scoring import StorageScore
from kubesched.scheduler.plugins.volume_binding.volume_binder import VolumeBinder, VolumeReservation
from kubesched.scheduler.plugins.volume_binding.volume_finder import (
    STATUSES,
    VolumeFinder,
    VolumeFinding,
)
from kubesched.scheduler.plugins.volume_binding.volume_index import VolumeIndex

__all__ = ["VolumeBinding"]

STATE_KEY = "VolumeBinding"
UNBOUND_IMMEDIATE = Status.unresolvable(
    "pod has unbound immediate PersistentVolumeClaims", causes=(ClaimUnusable(),)
)


class _State:
    """The pod's claims and reservation.

    All clones of an attempt's state share the object.
    """

    __slots__ = ("are_all_bound", "claims", "matched", "reservation")

    def __init__(self, claims: PodClaims | None = None) -> None:
        self.claims = claims  # None: the pod has no claims
        self.are_all_bound = False
        self.reservation: VolumeReservation | None = None
        # The latest match of free volumes, for Reserve: the labels of the node, the version of
        # the index, and the finding. It depends on nothing else.
        self.matched: tuple[Mapping[str, str], int, VolumeFinding] | None = None


_NO_CLAIMS = _State()
_NO_CLAIMS.are_all_bound = True


class VolumeBinding(Plugin):
    """Filter nodes by the pod's volumes, and bind or provision the volumes."""

    name = VOLUME_BINDING
    args_type = VolumeBindingArgs
    reads = Reads(
        pods_on_node=PodsOnNode.NOTHING,
        other_nodes=False,
        objects=(
            PersistentVolumeClaim,
            PersistentVolume,
            StorageClass,
            CSINode,
            CSIDriver,
            CSIStorageCapacity,
        ),
    )
    pre_bind_in_parallel = True

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._score: StorageScore | None = None
        if handle is None:
            return
        settings = VolumeBindingArgs() if args is None else args
        claims = handle.lister(PersistentVolumeClaim)
        volumes = handle.lister(PersistentVolume)
        self._listed_claims = claims
        self._classes = handle.lister(StorageClass)
        index = self._index = VolumeIndex()
        self._volumes = AssumeCache(volumes, "persistentvolumes", index.put)
        self._claims = AssumeCache(claims, "persistentvolumeclaims")
        migration = Migration(handle.lister(CSINode))
        provisioners = Provisioners(handle)
        self._finder = VolumeFinder(index, self._volumes, provisioners, migration)
        self._many = ColumnVolumeFinder(self._finder, index, self._volumes, provisioners, migration)
        timeout_ns = settings.bind_timeout_seconds * SECOND
        self._binder = VolumeBinder(handle, self._volumes, self._claims, migration, timeout_ns)
        if feature_enabled(handle, "StorageCapacityScoring"):
            self._score = StorageScore(settings.shape or ())

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return EVENTS

    def concerns(self, spec: PodSpec) -> bool:
        return any(map(needs_claim, spec.volumes))

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        pod = pod_info.pod
        if not pod.spec.volumes:
            state.write(STATE_KEY, _State())
            return SKIP
        problem, has_claims = claims_problem(pod, self._listed_claims)
        if problem:
            return Status.unresolvable(problem, causes=(ClaimUnusable(),))
        if not has_claims:
            state.write(STATE_KEY, _State())
            return SKIP
        try:
            claims = group_claims(pod, self._claims, self._classes)
        except VolumeClaimError as exc:
            return Status.failure(exc)
        if claims.immediate:
            return UNBOUND_IMMEDIATE
        state.write(STATE_KEY, _State(claims))
        if claims.bound and self._finder.may_fail(claims.bound):
            state.asks_every_node = True
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        pod_state = _read(state)
        if isinstance(pod_state, Status):
            return pod_state
        try:
            problems = self._find(pod_state, node).problems
        except VolumeClaimError as exc:
            self.handle.metrics.count_volume_error("predicate")
            return Status.failure(exc)
        return STATUSES[problems - 1] if problems else SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        pod_state = _read(state)
        if isinstance(pod_state, Status):
            return reject_all(nodes, pod_state)
        if pod_state.claims is None:
            return Rejections.none()
        problems, errors = self._many.find(pod_state.claims, nodes)
        if not errors:
            return Rejections(problems, STATUSES) if problems.any() else Rejections.none()
        self.handle.metrics.count_volume_error("predicate")
        codes = problems.astype(np.uint32)
        statuses = list(STATUSES)
        for where, text in errors:
            statuses.append(Status.failure(text))
            codes[where] = len(statuses)
        return Rejections(codes, tuple(statuses))

    def _find(self, pod_state: _State, node: NodeInfo) -> VolumeFinding:
        if pod_state.claims is None:
            return VolumeFinding(0)
        labels, version, matched = node.labels, self._index.version, pod_state.matched
        if matched is not None and matched[0] is labels and matched[1] == version:
            return matched[2]
        found = self._finder.find(pod_state.claims, node.name, labels)
        is_match = not found.problems and not found.volumes.dynamic and not pod_state.claims.bound
        pod_state.matched = (labels, version, found) if is_match else None
        return found

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        return SKIP if self._score is None else SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        pod_state = _read(state)
        if self._score is None or isinstance(pod_state, Status) or pod_state.claims is None:
            return 0
        return self._score(self._find(pod_state, node).volumes)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        pod_state = _read(state)
        if isinstance(pod_state, Status):
            return pod_state
        if pod_state.claims is None or are_all_bound(pod, self._claims):
            pod_state.are_all_bound = True
            return SUCCESS
        node = self.handle.snapshot.get(node_name)
        try:
            if node is None:
                raise VolumeClaimError(f'node "{node_name}" not found')
            found = self._find(pod_state, node)
            if found.problems:
                raise VolumeClaimError(STATUSES[found.problems - 1].message)
            pod_state.reservation = self._binder.assume(found.volumes, node_name)
        except VolumeClaimError as exc:
            self.handle.metrics.count_volume_error("assume")
            return Status.failure(exc)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pod_state = _read(state)
        if isinstance(pod_state, Status) or pod_state.reservation is None:
            return
        if pod_state.reservation.node_name == node_name:
            self._binder.give_back(pod_state.reservation)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        pod_state = _read(state)
        if isinstance(pod_state, Status):
            return pod_state
        if pod_state.are_all_bound:
            return SKIP
        if pod_state.reservation is None or pod_state.reservation.node_name != node_name:
            return Status.failure(f'no pod volume found for node "{node_name}"')
        return SUCCESS

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        pod_state = _read(state)
        if isinstance(pod_state, Status):
            return pod_state
        if pod_state.are_all_bound:
            return SUCCESS
        if pod_state.reservation is None or pod_state.reservation.node_name != node_name:
            return Status.failure(f'no pod volumes found for node "{node_name}"')
        try:
            await self._binder.bind(pod_state.reservation, pod)
        except Exception as exc:  # includes refusals of the API server; the status has the text
            self.handle.metrics.count_volume_error("bind")
            return Status.failure(exc)
        return SUCCESS

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.volume_binding.explaining import VolumeBindingExplaining

        return VolumeBindingExplaining()


def _read(state: CycleState) -> _State | Status:
    if VOLUME_BINDING in state.skip_filter:
        return _NO_CLAIMS  # the search may skip PreFilter for a pod without claims
    try:
        pod_state: _State = state.read(STATE_KEY)
    except StateNotFoundError as exc:
        return Status.failure(exc)
    return pod_state
