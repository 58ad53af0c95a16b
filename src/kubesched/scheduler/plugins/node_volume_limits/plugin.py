"""NodeVolumeLimits: CSI drivers limit the volumes of a node.

docs/reference/07 §8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    StorageClass,
    VolumeAttachment,
)
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
    Status,
)
from kubesched.framework.causes import ClaimUnusable, VolumeLimitReached
from kubesched.framework.explaining import Explaining
from kubesched.scheduler.config.plugin_names import NODE_VOLUME_LIMITS
from kubesched.scheduler.plugins.helpers.csi_migration import in_tree_plugin, volume_handle
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled
from kubesched.scheduler.plugins.helpers.hints import expect, is_placed, queue_if
from kubesched.scheduler.plugins.helpers.volume_claims import VolumeClaimError, claim_names
from kubesched.scheduler.plugins.node_volume_limits.identity import MissingClaimError, is_counted
from kubesched.scheduler.plugins.node_volume_limits.usage import VolumeUsage

__all__ = ["NodeVolumeLimits"]

FULL = Status.unschedulable("node(s) exceed max volume count", causes=(VolumeLimitReached(),))

Volumes = Mapping[str, str]  # driver/handle -> driver


class NodeVolumeLimits(Plugin):
    """Filter plugin: reject nodes whose drivers cannot attach the pod's volumes."""

    name = NODE_VOLUME_LIMITS
    reads = Reads(
        pods_on_node=PodsOnNode.DETAIL,
        other_nodes=False,
        objects=(
            PersistentVolumeClaim,
            PersistentVolume,
            StorageClass,
            CSINode,
            CSIDriver,
            VolumeAttachment,
        ),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is not None:
            self._usage = VolumeUsage(handle)
            self._nodes = handle.lister(CSINode)
            self._drivers = handle.lister(CSIDriver)
        self._needs_driver = feature_enabled(handle, "VolumeLimitScaling")

    def concerns(self, spec: PodSpec) -> bool:
        return any(map(is_counted, spec.volumes))

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        volumes = pod_info.pod.spec.volumes
        if not volumes or not any(map(is_counted, volumes)):
            return SKIP
        if self._usage.has_limits and self._usage.has_errors(nodes):
            state.asks_every_node = True
        elif any(in_tree_plugin(volume) is not None for volume in volumes):
            new = self._new_volumes(pod_info.pod, has_drivers=True)
            state.asks_every_node |= isinstance(new, Status) and not new.is_rejected
        return SUCCESS

    def ignores(self, state: CycleState, pod: Pod, other: PodInfo) -> bool:
        return not self._usage.has_limits or not any(map(is_counted, other.pod.spec.volumes))

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        if not pod.spec.volumes:
            return SUCCESS
        csi_node = self._nodes.get(node.name)
        new = self._new_volumes(pod, has_drivers=csi_node is not None)
        if isinstance(new, Status):
            return new
        if not new:
            return SUCCESS
        if self._needs_driver and (missing := self._missing_driver(new, csi_node)):
            return missing
        usage = self._usage.of_node(node)
        if usage is None:
            return SUCCESS
        if usage.error:
            return Status.failure(usage.error)
        return SUCCESS if usage.has_room(new) else FULL

    def _new_volumes(self, pod: Pod, *, has_drivers: bool) -> Volumes | Status:
        try:
            return self._usage.volumes.of_pod(pod, is_new=True, has_drivers=has_drivers)
        except MissingClaimError as exc:
            return Status.unresolvable(str(exc), causes=(ClaimUnusable(),))
        except VolumeClaimError as exc:
            return Status.failure(exc)

    def _missing_driver(self, new: Volumes, node: CSINode | None) -> Status | None:
        """Return why a required driver is missing; only with the gate VolumeLimitScaling."""
        installed = () if node is None else [driver.name for driver in node.spec.drivers]
        for name in sorted(set(new.values())):
            driver = self._drivers.get(name)
            if driver is None or not driver.spec.prevent_pod_scheduling_if_missing:
                continue
            if name not in installed:
                return Status.unschedulable(f"{name} CSI driver is not installed on the node")
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        if not pod.spec.volumes:
            return Rejections.none()
        if self._needs_driver:
            return super().filter_nodes(state, pod, nodes)
        registered = self._usage.registered(nodes)
        elsewhere = self._new_volumes(pod, has_drivers=False)
        new = self._new_volumes(pod, has_drivers=True)
        codes = np.zeros(len(nodes), dtype=np.uint32)
        statuses: list[Status] = [FULL]
        if isinstance(elsewhere, Status):
            _reject(codes, statuses, ~registered, elsewhere)
        if isinstance(new, Status):
            _reject(codes, statuses, registered, new)
        elif new and self._usage.has_limits:
            full, errors = self._usage.full_for(new, nodes)
            codes[nodes.at(full)] = 1
            for row, text in errors.items():
                _reject(codes, statuses, nodes.rows == row, Status.failure(text))
        return Rejections(codes, tuple(statuses)) if codes.any() else Rejections.none()

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.CSI_NODE, ActionType.ADD | ActionType.UPDATE),
                self._node_changed,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.DELETE), self._pod_deleted
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
                self._claim_added,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE), self._detached
            ),
        )

    def _node_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        if old is None:
            return QueueingHint.QUEUE
        before, after = (_limits(expect(CSINode, node)) for node in (old, new))
        return queue_if(any(limit > before.get(name, 0) for name, limit in after.items()))

    def _pod_deleted(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        deleted = expect(Pod, old)
        return queue_if(is_placed(deleted) and any(map(is_counted, deleted.spec.volumes)))

    def _claim_added(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        added = expect(PersistentVolumeClaim, new).metadata
        same_namespace = added.namespace == pod.metadata.namespace
        return queue_if(same_namespace and added.name in claim_names(pod))

    def _detached(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        attacher = expect(VolumeAttachment, old).spec.attacher
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                return QueueingHint.QUEUE
            plugin = in_tree_plugin(volume)
            if plugin is not None:
                if plugin.is_replaced:
                    volume_handle(plugin, volume, None)  # raises if the driver does not support it
                if plugin.driver == attacher:
                    return QueueingHint.QUEUE
        return QueueingHint.SKIP

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.node_volume_limits.explaining import (
            NodeVolumeLimitsExplaining,
        )

        return NodeVolumeLimitsExplaining()


def _reject(
    codes: NDArray[np.uint32], statuses: list[Status], where: NDArray[np.bool_], status: Status
) -> None:
    """Set a further status for some of the nodes."""
    statuses.append(status)
    codes[where] = len(statuses)


def _limits(node: CSINode) -> dict[str, int]:
    """The limits for the hint: a driver without a limit counts as 0."""
    return {
        driver.name: driver.allocatable.count or 0 if driver.allocatable is not None else 0
        for driver in node.spec.drivers
    }
