"""Equal parts of objects that came from a server, kept once.

Pods of one workload differ in little: names, the node, addresses, moments. Decoded one by one,
each has its own copy of everything else. `PodSharing` and its like take a decoded object and
return an equal one whose parts are those of the version before it or of a model, another
object like it. Objects are immutable, so nobody can tell.

What is remembered is bounded. A value or model that was forgotten costs memory, as its next
equal is kept beside it; it is never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kubesched.api.meta import ObjectMeta
from kubesched.api.node import Node, NodeCondition, NodeStatus
from kubesched.api.pod import (
    ContainerStateRunning,
    ContainerStatus,
    Pod,
    PodCondition,
    PodIP,
    PodSpec,
    PodStatus,
)
from kubesched.api.volume import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Volume,
)

__all__ = ["ClaimSharing", "NodeSharing", "PodSharing", "Recent", "Shared", "VolumeSharing"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
H = TypeVar("H", bound=Hashable)
S = TypeVar("S", bound=Struct)

# Lists come in the order of names, so pods of one workload come together.
_MODELS = 2_000
# Three of them per node: its name and its addresses.
_VALUES = 50_000
# Moments are shared by what happened to one object at once, rarely by different objects.
_MOMENTS = 500
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"


class Recent(Generic[K, V]):
    """A mapping that forgets what nobody asked for lately, and holds at most twice `most`.

    Entries are in two generations. When the younger one is full, it becomes the older one, and
    what is still in the older one by then is dropped.
    """

    __slots__ = ("_most", "_older", "_younger")

    def __init__(self, most: int) -> None:
        self._most = most
        self._younger: dict[K, V] = {}
        self._older: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._younger.keys() | self._older.keys())

    def get(self, key: K) -> V | None:
        found = self._younger.get(key)
        if found is None:
            found = self._older.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        if len(self._younger) >= self._most:
            self._older, self._younger = self._younger, {}
        self._younger[key] = value


class Shared(Recent[Any, Any]):
    """Values of any kind, each standing for all that equal it."""

    __slots__ = ()

    def __call__(self, value: H) -> H:
        found: H | None = self._younger.get(value)
        if found is None:
            found = self._older.get(value)
            if found is None:
                found = value
            self.put(found, found)
        return found


class PodSharing:
    """Remembers a pod of each workload, running and waiting, and values such as node names."""

    def __init__(self) -> None:
        self._models: Recent[tuple[str, bool], Pod] = Recent(_MODELS)
        self._same = Shared(_VALUES)
        self._same_moment = Shared(_MOMENTS)
        self._last = Pod()

    def share(self, pod: Pod, before: Pod | None) -> Pod:
        """The same pod, sharing what it can with the version before it and with its like."""
        owners = pod.metadata.owner_references
        key = owners[0].uid if owners else pod.metadata.namespace, bool(pod.spec.node_name)
        model = self._models.get(key)
        is_known = model is not None
        if model is None:
            # Pods have much in common even across workloads.
            model = self._last
        nearest = model if before is None else before
        shared = Pod(
            metadata=self._metadata(pod.metadata, nearest.metadata),
            spec=self._spec(pod.spec, nearest.spec),
            status=self._status(pod.status, model.status),
        )
        # Templates change under their owner.
        if not is_known or shared.spec.containers is not model.spec.containers:
            self._models.put(key, shared)
        self._last = shared
        return shared

    def _metadata(self, metadata: ObjectMeta, model: ObjectMeta) -> ObjectMeta:
        return _alike(
            metadata,
            model,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp=self._same_moment(metadata.creation_timestamp),
        )

    def _spec(self, spec: PodSpec, model: PodSpec) -> PodSpec:
        if spec == model:
            return model
        return _alike(
            spec,
            model,
            volumes=_each(spec.volumes, model.volumes, _volume),
            node_name=self._same(spec.node_name),
            hostname=spec.hostname,
        )

    def _status(self, status: PodStatus, model: PodStatus) -> PodStatus:
        if status == model:
            return model
        same = self._same
        pod_ip, pod_ips = status.pod_ip, status.pod_ips
        if len(pod_ips) == 1 and pod_ips[0].ip == pod_ip:
            pod_ips = (PodIP(ip=pod_ip),)
        return _alike(
            status,
            model,
            conditions=self._conditions(status.conditions, model.conditions),
            host_ip=same(status.host_ip),
            host_ips=same(status.host_ips),
            pod_ip=pod_ip,
            pod_ips=pod_ips,
            start_time=self._same_moment(status.start_time),
            container_statuses=_each(
                status.container_statuses, model.container_statuses, self._container
            ),
        )

    def _conditions(
        self, conditions: tuple[PodCondition, ...], models: tuple[PodCondition, ...]
    ) -> tuple[PodCondition, ...]:
        if len(conditions) != len(models):
            return conditions
        shared = []
        for condition, model in zip(conditions, models, strict=True):
            moment = self._same_moment(condition.last_transition_time)
            alike = replace(model, last_transition_time=moment)
            shared.append(alike if alike == condition else condition)
        return tuple(shared)

    def _container(self, status: ContainerStatus, model: ContainerStatus) -> ContainerStatus:
        state = status.state
        if state.running is not None:
            started = ContainerStateRunning(started_at=self._same_moment(state.running.started_at))
            state = replace(state, running=started)
        return _alike(status, model, state=state, container_id=status.container_id)


class NodeSharing:
    """Remembers a node of each instance type, and values such as images and zones."""

    def __init__(self) -> None:
        self._models: Recent[str, Node] = Recent(_MODELS)
        self._same = Shared(_VALUES)
        self._same_moment = Shared(_MOMENTS)

    def share(self, node: Node, before: Node | None) -> Node:
        """The same node, sharing what it can with the version before it and with its like."""
        key = node.metadata.labels.get(_INSTANCE_TYPE, "")
        model = self._models.get(key)
        nearest = before or model or Node()
        shared = Node(
            metadata=self._metadata(node.metadata, nearest.metadata),
            spec=_alike(node.spec, nearest.spec),
            status=self._status(node.status, nearest.status),
        )
        if model is None:
            self._models.put(key, shared)
        return shared

    def _metadata(self, metadata: ObjectMeta, model: ObjectMeta) -> ObjectMeta:
        labels = model.labels
        if metadata.labels != labels:
            labels = {name: self._same(value) for name, value in metadata.labels.items()}
        return _alike(
            metadata,
            model,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp=metadata.creation_timestamp,
            labels=labels,
        )

    def _status(self, status: NodeStatus, model: NodeStatus) -> NodeStatus:
        images = model.images
        if status.images != images:
            images = tuple(map(self._same, status.images))
        info = status.node_info
        return _alike(
            status,
            model,
            conditions=_each(status.conditions, model.conditions, self._condition),
            addresses=_each(status.addresses, model.addresses, _alike),
            node_info=_alike(
                info,
                model.node_info,
                machine_id=info.machine_id,
                system_uuid=info.system_uuid,
                boot_id=info.boot_id,
            ),
            images=images,
        )

    def _condition(self, condition: NodeCondition, model: NodeCondition) -> NodeCondition:
        return _alike(
            condition,
            model,
            last_heartbeat_time=self._same_moment(condition.last_heartbeat_time),
            last_transition_time=self._same_moment(condition.last_transition_time),
        )


class VolumeSharing:
    """Remembers a persistent volume of each class, and values such as node affinities."""

    def __init__(self) -> None:
        self._models: Recent[str, PersistentVolume] = Recent(_MODELS)
        self._same = Shared(_VALUES)
        self._same_moment = Shared(_MOMENTS)
        self._same_map = SharedMaps(_MODELS)

    def share(self, volume: PersistentVolume, before: PersistentVolume | None) -> PersistentVolume:
        """The same volume, sharing what it can with the version before it and with its like."""
        key = volume.spec.storage_class_name
        model = self._models.get(key)
        nearest = before or model or PersistentVolume()
        moment = self._same_moment(volume.status.last_phase_transition_time)
        shared = PersistentVolume(
            metadata=_own_metadata(
                volume.metadata, nearest.metadata, self._same_moment, self._same_map
            ),
            spec=self._spec(volume.spec, nearest.spec),
            status=_alike(volume.status, nearest.status, last_phase_transition_time=moment),
        )
        if model is None or (model.spec.claim_ref is None and shared.spec.claim_ref is not None):
            self._models.put(key, shared)
        return shared

    def _spec(
        self, spec: PersistentVolumeSpec, model: PersistentVolumeSpec
    ) -> PersistentVolumeSpec:
        csi, reference = spec.csi, spec.claim_ref
        if csi is not None and model.csi is not None:
            csi = _alike(csi, model.csi, volume_handle=csi.volume_handle)
        if reference is not None and model.claim_ref is not None:
            reference = _alike(
                reference,
                model.claim_ref,
                namespace=self._same(reference.namespace),
                name=reference.name,
                uid=reference.uid,
                resource_version=reference.resource_version,
            )
        affinity = None if spec.node_affinity is None else self._same(spec.node_affinity)
        return _alike(spec, model, csi=csi, claim_ref=reference, node_affinity=affinity)


class ClaimSharing:
    """Remembers a claim of each class and namespace, and what annotations have in common."""

    def __init__(self) -> None:
        self._models: Recent[tuple[str, str | None], PersistentVolumeClaim] = Recent(_MODELS)
        self._same_moment = Shared(_MOMENTS)
        self._same_map = SharedMaps(_VALUES)

    def share(
        self, claim: PersistentVolumeClaim, before: PersistentVolumeClaim | None
    ) -> PersistentVolumeClaim:
        """The same claim, sharing what it can with the version before it and with its like."""
        key = claim.metadata.namespace, claim.spec.storage_class_name
        model = self._models.get(key)
        nearest = before or model or PersistentVolumeClaim()
        shared = PersistentVolumeClaim(
            metadata=_own_metadata(
                claim.metadata, nearest.metadata, self._same_moment, self._same_map
            ),
            spec=_alike(claim.spec, nearest.spec, volume_name=claim.spec.volume_name),
            status=_alike(claim.status, nearest.status),
        )
        if model is None or (not model.status.capacity and shared.status.capacity):
            self._models.put(key, shared)
        return shared


class SharedMaps(Recent[tuple[tuple[str, str], ...], dict[str, str]]):
    """Labels and annotations, each standing for all that equal it."""

    __slots__ = ()

    def __call__(self, value: dict[str, str]) -> dict[str, str]:
        if not value:
            return value
        key = tuple(value.items())
        found = self.get(key)
        if found is None:
            found = value
            self.put(key, found)
        return found


def _own_metadata(
    metadata: ObjectMeta, model: ObjectMeta, same_moment: Shared, same_map: SharedMaps
) -> ObjectMeta:
    """Metadata of an object that has labels and annotations of its own."""
    return _alike(
        metadata,
        model,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        creation_timestamp=same_moment(metadata.creation_timestamp),
        labels=same_map(metadata.labels),
        annotations=same_map(metadata.annotations),
    )


def _volume(volume: Volume, model: Volume) -> Volume:
    return _alike(volume, model, name=volume.name)


def _each(new: tuple[S, ...], model: tuple[S, ...], alike: Callable[[S, S], S]) -> tuple[S, ...]:
    if new == model:
        return model
    if len(new) != len(model):
        return new
    return tuple(map(alike, new, model))


def _alike(new: S, model: S, **own: Any) -> S:
    """`new` with the parts of the model, where they are equal, and with `own` ones.

    The own parts are equal to those that `new` has. Usually all others are the model's.
    """
    if not own and new == model:
        return model
    shared = replace(model, **own)
    if shared == new:
        return shared
    for name in new.__struct_fields__:
        if name not in own:
            part, theirs = getattr(new, name), getattr(model, name)
            if part is not theirs:
                own[name] = theirs if part == theirs else _nearly(part, theirs)
    return replace(new, **own)


def _nearly(part: Any, model: Any) -> Any:
    """A part that differs from the model's, with what they have in common."""
    if isinstance(part, Struct):
        return part if model is None else _alike(part, model)
    if isinstance(part, tuple) and part and isinstance(part[0], Struct):
        return part if model is None else _each(part, model, _alike)
    return part
