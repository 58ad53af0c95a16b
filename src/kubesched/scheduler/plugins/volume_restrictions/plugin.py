"""VolumeRestrictions: disks and claims that only one pod can use.

docs/reference/07 §7.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from kubesched.api import PersistentVolumeClaim, Pod, PodSpec
from kubesched.framework import (
    SKIP,
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
    PodInfo,
    PodsOnNode,
    QueueingHint,
    Reads,
    Rejections,
    StateNotFoundError,
    Status,
)
from kubesched.framework.causes import ClaimInUse, ClaimUnusable, DiskInUse
from kubesched.framework.explaining import Explaining
from kubesched.scheduler.config.plugin_names import VOLUME_RESTRICTIONS
from kubesched.scheduler.plugins.helpers.hints import expect, queue_if
from kubesched.scheduler.plugins.helpers.missing_state import reject_all
from kubesched.scheduler.plugins.helpers.row_facts import RowFacts
from kubesched.scheduler.plugins.helpers.volume_claims import named_claims, not_found
from kubesched.scheduler.plugins.volume_restrictions.disks import DiskUse, disk_use, share_a_disk

__all__ = ["VolumeRestrictions"]

STATE_KEY = "PreFilterVolumeRestrictions"
DISK_TAKEN = Status.unschedulable("node(s) had no available disk", causes=(DiskInUse(),))
CLAIM_TAKEN = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod",
    causes=(ClaimInUse(),),
)
_ONE_POD = "ReadWriteOncePod"


class _ExclusiveUse(msgspec.Struct, gc=False):
    """The disks and claims that the pod cannot share with other pods."""

    disks: DiskUse
    claims: frozenset[str]  # names of ReadWriteOncePod claims
    conflicts: int  # how many of the claims other pods use; a dry run counts up and down

    def clone(self) -> _ExclusiveUse:
        return _ExclusiveUse(self.disks, self.claims, self.conflicts)

    def uses(self, pod: Pod) -> int:
        """How often a pod names one of the claims; does not compare the namespace."""
        if not self.claims or not pod.spec.volumes:
            return 0
        return sum(name in self.claims for name in named_claims(pod))


class VolumeRestrictions(Plugin):
    """Filter plugin: reject nodes on which a pod uses a disk or claim exclusively."""

    name = VOLUME_RESTRICTIONS
    reads = Reads(pods_on_node=PodsOnNode.SPECS, objects=(PersistentVolumeClaim,))

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._claims = None if handle is None else handle.lister(PersistentVolumeClaim)
        self._disks: RowFacts[DiskUse] = RowFacts(_disks_on)

    def concerns(self, spec: PodSpec) -> bool:
        return bool(disk_use(spec.volumes)) or any(
            each.persistent_volume_claim is not None for each in spec.volumes
        )

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        pod = pod_info.pod
        if not pod.spec.volumes:
            return SKIP
        disks = disk_use(pod.spec.volumes)
        alone = set()
        for name in named_claims(pod):
            claim = self._claim(name, pod.metadata.namespace)
            if claim is None:
                return Status.unresolvable(
                    not_found(PersistentVolumeClaim, name), causes=(ClaimUnusable(),)
                )
            if _ONE_POD in claim.spec.access_modes:
                alone.add(name)
        in_use = 0
        if alone:
            snapshot = self.handle.snapshot
            keys = (f"{pod.metadata.namespace}/{name}" for name in alone)
            in_use = sum(snapshot.has_pvc_in_use(key) for key in keys)
        if not disks and not in_use:
            return SKIP
        state.write(STATE_KEY, _ExclusiveUse(disks, frozenset(alone), in_use))
        return SUCCESS

    def _claim(self, name: str, namespace: str) -> PersistentVolumeClaim | None:
        return None if self._claims is None else self._claims.get(name, namespace)

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        return self._count(state, added, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        return self._count(state, removed, -1)

    def _count(self, state: CycleState, other: PodInfo, step: int) -> Status:
        exclusive = _read_state(state)
        if isinstance(exclusive, Status):
            return exclusive
        exclusive.conflicts += step * exclusive.uses(other.pod)
        return SUCCESS

    def ignores(self, state: CycleState, pod: Pod, other: PodInfo) -> bool:
        if not other.pod.spec.volumes:
            return True
        exclusive = _read_state(state)
        return (
            not isinstance(exclusive, Status)
            and not exclusive.uses(other.pod)
            and not share_a_disk(exclusive.disks, disk_use(other.pod.spec.volumes))
        )

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        disks = disk_use(pod.spec.volumes)
        if disks and any(share_a_disk(disks, disk_use(o.pod.spec.volumes)) for o in node.pods):
            return DISK_TAKEN
        exclusive = _read_state(state)
        if isinstance(exclusive, Status):
            return exclusive
        return CLAIM_TAKEN if exclusive.conflicts > 0 else SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        exclusive = _read_state(state)
        if isinstance(exclusive, Status):
            return reject_all(nodes, exclusive)
        codes = np.full(len(nodes), 2 if exclusive.conflicts > 0 else 0, dtype=np.uint8)
        if exclusive.disks:
            self._disks.refresh(nodes)
            taken = np.zeros(nodes.table.capacity, dtype=bool)
            for row, used in self._disks.facts.items():
                taken[row] = share_a_disk(exclusive.disks, used)
            codes[nodes.at(taken)] = 1
        return Rejections(codes, (DISK_TAKEN, CLAIM_TAKEN))

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.DELETE), self._pod_deleted
            ),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
                self._claim_added,
            ),
        )

    def _pod_deleted(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        deleted = expect(Pod, old)
        if deleted.metadata.namespace != pod.metadata.namespace:
            return QueueingHint.SKIP  # even if the deleted pod used a disk of this pod
        if share_a_disk(disk_use(pod.spec.volumes), disk_use(deleted.spec.volumes)):
            return QueueingHint.QUEUE
        return queue_if(not set(named_claims(pod)).isdisjoint(named_claims(deleted)))

    def _claim_added(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        added = expect(PersistentVolumeClaim, new).metadata
        same_namespace = added.namespace == pod.metadata.namespace
        return queue_if(same_namespace and added.name in named_claims(pod))

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.volume_restrictions.explaining import (
            VolumeRestrictionsExplaining,
        )

        return VolumeRestrictionsExplaining()


def _read_state(state: CycleState) -> _ExclusiveUse | Status:
    try:
        exclusive: _ExclusiveUse = state.read(STATE_KEY)
    except StateNotFoundError:
        return Status.failure(f'cannot read "{STATE_KEY}" from cycleState')
    return exclusive


def _disks_on(node: NodeInfo) -> DiskUse | None:
    """Return the disks that the pods on a node use, or None if there are none."""
    volumes = [volume for other in node.pods for volume in other.pod.spec.volumes]
    return disk_use(volumes) or None
