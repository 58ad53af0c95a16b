"""VolumeZone: a node must match the zone and region labels of bound volumes.

The rules are in docs/reference/07 §9.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, StorageClass
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
from kubesched.framework.causes import ClaimUnusable, VolumeUnreachable
from kubesched.framework.explaining import Explaining
from kubesched.scheduler.config.plugin_names import VOLUME_ZONE
from kubesched.scheduler.plugins.helpers.csi_migration import REGION, REGION_BETA, ZONE, ZONE_BETA
from kubesched.scheduler.plugins.helpers.hints import expect, queue_if
from kubesched.scheduler.plugins.helpers.missing_state import reject_all
from kubesched.scheduler.plugins.helpers.volume_claims import (
    WAIT_FOR_FIRST_CONSUMER,
    binding_mode_missing,
    claim_class,
    named_claims,
    not_found,
)

__all__ = ["VolumeZone"]

STATE_KEY = "PreFilterVolumeZone"
ELSEWHERE = Status.unresolvable(
    "node(s) had no available volume zone", causes=(VolumeUnreachable(),)
)

_KEYS = (ZONE_BETA, REGION_BETA, ZONE, REGION)
_SUCCESSOR = {ZONE_BETA: ZONE, REGION_BETA: REGION}


class _Topology(NamedTuple):
    """A label that a volume requires of a node, with the accepted values."""

    volume: str
    key: str
    values: frozenset[str]


class VolumeZone(Plugin):
    """Filter plugin: reject nodes outside the zones of the pod's volumes."""

    name = VOLUME_ZONE
    reads = Reads(
        pods_on_node=PodsOnNode.NOTHING,
        other_nodes=False,
        objects=(PersistentVolumeClaim, PersistentVolume, StorageClass),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is not None:
            self._claims = handle.lister(PersistentVolumeClaim)
            self._volumes = handle.lister(PersistentVolume)
            self._classes = handle.lister(StorageClass)

    def concerns(self, spec: PodSpec) -> bool:
        return any(each.persistent_volume_claim is not None for each in spec.volumes)

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        if not pod_info.pod.spec.volumes:
            return SKIP
        found = self._topologies(pod_info.pod)
        if isinstance(found, Status):
            return found
        if not found:
            return SKIP
        state.write(STATE_KEY, found)
        return SUCCESS

    def _topologies(self, pod: Pod) -> tuple[_Topology, ...] | Status:
        """Return the labels that the pod's bound volumes require, or why that is unknown."""
        required: list[_Topology] = []
        for name in named_claims(pod):
            if not name:
                return _unusable("PersistentVolumeClaim had no name")
            claim = self._claims.get(name, pod.metadata.namespace)
            if claim is None:
                return _unusable(not_found(PersistentVolumeClaim, name))
            volume_name = claim.spec.volume_name
            if not volume_name:
                problem = self._unbound_problem(claim)
                if problem:
                    return _unusable(problem)
                continue
            volume = self._volumes.get(volume_name)
            if volume is None:
                return _unusable(not_found(PersistentVolume, volume_name))
            required += _topologies_of(volume)
        return tuple(required)

    def _unbound_problem(self, claim: PersistentVolumeClaim) -> str:
        """Return why a claim without a volume is a problem, or an empty string."""
        class_name = claim_class(claim)
        if not class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        found = self._classes.get(class_name)
        if found is None:
            return not_found(StorageClass, class_name)
        if found.volume_binding_mode is None:
            return binding_mode_missing(class_name)
        if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return ""
        return "PersistentVolume had no name"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        if not pod.spec.volumes:
            return SUCCESS
        required = self._required(state, pod)
        if isinstance(required, Status):
            return required
        labels = node.labels
        if not any(key in labels for key in _KEYS):
            return SUCCESS  # a node without any of the labels is in no zone
        for _, key, values in required:
            value = labels.get(key)
            if value is None:
                value = labels.get(_SUCCESSOR.get(key, ""))
            if value is None or value not in values:
                return ELSEWHERE
        return SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        if not pod.spec.volumes:
            return Rejections.none()
        required = self._required(state, pod)
        if isinstance(required, Status):
            return reject_all(nodes, required)
        is_placed = np.zeros(len(nodes), dtype=bool)
        for key in _KEYS:
            is_placed |= nodes.has_label(key)
        fits = np.ones(len(nodes), dtype=bool)
        for _, key, values in required:
            fits &= _has_value(nodes, key, values)
        return Rejections.where(is_placed & ~fits, ELSEWHERE)

    def _required(self, state: CycleState, pod: Pod) -> tuple[_Topology, ...] | Status:
        try:
            required: tuple[_Topology, ...] = state.read(STATE_KEY)
        except StateNotFoundError:
            return self._topologies(pod)
        return required

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        appears = ActionType.ADD | ActionType.UPDATE
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD), self._class_added
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, appears), self._claim_changed
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME, appears), self._volume_changed
            ),
        )

    def _class_added(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        added = expect(StorageClass, new)
        return queue_if(added.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)

    def _claim_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        changed = expect(PersistentVolumeClaim, new).metadata
        same_namespace = changed.namespace == pod.metadata.namespace
        return queue_if(same_namespace and changed.name in named_claims(pod))

    def _volume_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        changed = expect(PersistentVolume, new)
        if old is None:
            return QueueingHint.QUEUE
        before = expect(PersistentVolume, old)
        return queue_if(list(_topologies_of(before)) != list(_topologies_of(changed)))

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.volume_zone.explaining import VolumeZoneExplaining

        return VolumeZoneExplaining()


def _topologies_of(volume: PersistentVolume) -> Iterable[_Topology]:
    labels = volume.metadata.labels
    for key in _KEYS:
        if key in labels:
            values = frozenset(part.strip() for part in labels[key].split("__"))
            if "" not in values:  # a label with an empty part is ignored
                yield _Topology(volume.metadata.name, key, values)


def _has_value(nodes: NodeView, key: str, values: frozenset[str]) -> NDArray[np.bool_]:
    """Return the nodes whose label, or its successor, has one of the values."""
    matched = _is_among(nodes, key, values)
    successor = _SUCCESSOR.get(key)
    if successor is not None:
        matched |= ~nodes.has_label(key) & _is_among(nodes, successor, values)
    return matched


def _is_among(nodes: NodeView, key: str, values: frozenset[str]) -> NDArray[np.bool_]:
    matched = np.zeros(len(nodes), dtype=bool)
    for value in values:
        matched |= nodes.label_equals(key, value)
    return matched


def _unusable(reason: str) -> Status:
    return Status.unresolvable(reason, causes=(ClaimUnusable(),))
