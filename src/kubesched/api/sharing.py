"""Sharing of equal parts between decoded objects, to save memory.

Pods of one workload differ only in a few fields: names, the node, addresses, times. Decoding
creates a copy of all other fields for each pod. `PodSharing` and similar classes take a decoded
object and return an equal one that reuses parts of its previous version or of a model, a similar
object. Objects are immutable, so sharing has no visible effect.

The caches are bounded. An evicted value or model costs memory, because the next equal value is
stored a second time; the results stay correct.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.json import Encoder
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
from kubesched.api.sized_caches import weight_of_texts
from kubesched.api.volume import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Volume,
)

__all__ = [
    "GENERATION_WEIGHT",
    "LARGEST_MODEL",
    "ClaimSharing",
    "NodeSharing",
    "PodSharing",
    "RecentlyUsed",
    "SharedValues",
    "VolumeSharing",
]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
H = TypeVar("H", bound=Hashable)
S = TypeVar("S", bound=Struct)

# Lists are sorted by name, so pods of one workload are adjacent.
_MODELS = 2_000
# Three values per node: its name and its addresses.
_VALUES = 50_000
# The size of a model as JSON, and of all models of a kind that were used lately.
LARGEST_MODEL = 32 << 10
GENERATION_WEIGHT = 4 << 20
# Times are shared by events of one object, rarely by different objects.
_MOMENTS = 500
_encode = Encoder().encode
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"


class RecentlyUsed(Generic[K, V]):
    """A mapping of at most twice `most` entries that evicts unused ones.

    Entries are in two generations. When the younger generation is full, it becomes the older
    one, and the entries of the previous older generation are dropped.
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


class Weighed(Generic[K, V]):
    """A mapping like `RecentlyUsed` whose entries have weights.

    A generation is full when its weights exceed `most_weight`, too. A user decides about the size
    of an object, so an entry that is too large for its cache is not stored.
    """

    __slots__ = ("_largest", "_most", "_most_weight", "_older", "_weight", "_younger")

    def __init__(self, most: int, largest: int, most_weight: int = GENERATION_WEIGHT) -> None:
        self._most, self._largest, self._most_weight = most, largest, most_weight
        self._younger: dict[K, tuple[V, int]] = {}
        self._older: dict[K, tuple[V, int]] = {}
        self._weight = 0  # of the younger generation

    def __len__(self) -> int:
        return len(self._younger.keys() | self._older.keys())

    def get(self, key: K) -> V | None:
        found = self._younger.get(key)
        if found is None:
            found = self._older.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: K, value: V, weight: int) -> bool:
        """Store a value, and return whether it was small enough."""
        if weight > self._largest:
            self._younger.pop(key, None)
            self._older.pop(key, None)
            return False
        if len(self._younger) >= self._most or self._weight + weight > self._most_weight:
            self._older, self._younger, self._weight = self._younger, {}, 0
        self._younger[key] = value, weight
        self._weight += weight
        return True


class Models(Weighed[K, S]):
    """A bounded cache of recent objects, with which later ones share their equal parts."""

    __slots__ = ()

    def __init__(self, most: int = _MODELS) -> None:
        super().__init__(most, LARGEST_MODEL)

    def store(self, key: K, model: S) -> bool:
        """Store a model, and return whether it was small enough."""
        return self.put(key, model, len(_encode(model)))


class SharedValues(RecentlyUsed[Any, Any]):
    """Hashable values of any type, each shared by all equal values."""

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
    """Shares parts of pods.

    Caches a running and a waiting pod per workload as models.
    """

    def __init__(self) -> None:
        self._models: Models[tuple[str, bool], Pod] = Models()
        self._same = SharedValues(_VALUES)
        self._same_moment = SharedValues(_MOMENTS)
        self._last = Pod()

    def share(self, pod: Pod, before: Pod | None) -> Pod:
        """Return an equal pod that shares parts with earlier ones."""
        owners = pod.metadata.owner_references
        key = owners[0].uid if owners else pod.metadata.namespace, bool(pod.spec.node_name)
        model = self._models.get(key)
        is_known = model is not None
        if model is None:
            # Pods have many equal fields even across workloads.
            model = self._last
        nearest = model if before is None else before
        shared = Pod(
            metadata=self._metadata(pod.metadata, nearest.metadata),
            spec=self._spec(pod.spec, nearest.spec),
            status=self._status(pod.status, model.status),
        )
        # The template of a workload can change.
        is_new = not is_known or shared.spec.containers is not model.spec.containers
        if is_new and self._models.store(key, shared):
            self._last = shared
        return shared

    def _metadata(self, metadata: ObjectMeta, model: ObjectMeta) -> ObjectMeta:
        return _share_parts(
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
        return _share_parts(
            spec,
            model,
            volumes=_share_each(spec.volumes, model.volumes, _volume),
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
        return _share_parts(
            status,
            model,
            conditions=self._conditions(status.conditions, model.conditions),
            host_ip=same(status.host_ip),
            host_ips=same(status.host_ips),
            pod_ip=pod_ip,
            pod_ips=pod_ips,
            start_time=self._same_moment(status.start_time),
            container_statuses=_share_each(
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
        return _share_parts(status, model, state=state, container_id=status.container_id)


class NodeSharing:
    """Shares parts of nodes; caches a node per instance type as a model."""

    def __init__(self) -> None:
        self._models: Models[str, Node] = Models()
        self._same = SharedValues(_VALUES)
        self._same_moment = SharedValues(_MOMENTS)

    def share(self, node: Node, before: Node | None) -> Node:
        """Return an equal node that shares parts with earlier ones."""
        key = node.metadata.labels.get(_INSTANCE_TYPE, "")
        model = self._models.get(key)
        nearest = before or model or Node()
        shared = Node(
            metadata=self._metadata(node.metadata, nearest.metadata),
            spec=_share_parts(node.spec, nearest.spec),
            status=self._status(node.status, nearest.status),
        )
        if model is None:
            self._models.store(key, shared)
        return shared

    def _metadata(self, metadata: ObjectMeta, model: ObjectMeta) -> ObjectMeta:
        labels = model.labels
        if metadata.labels != labels:
            labels = {name: self._same(value) for name, value in metadata.labels.items()}
        return _share_parts(
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
        return _share_parts(
            status,
            model,
            conditions=_share_each(status.conditions, model.conditions, self._condition),
            addresses=_share_each(status.addresses, model.addresses, _share_parts),
            node_info=_share_parts(
                info,
                model.node_info,
                machine_id=info.machine_id,
                system_uuid=info.system_uuid,
                boot_id=info.boot_id,
            ),
            images=images,
        )

    def _condition(self, condition: NodeCondition, model: NodeCondition) -> NodeCondition:
        return _share_parts(
            condition,
            model,
            last_heartbeat_time=self._same_moment(condition.last_heartbeat_time),
            last_transition_time=self._same_moment(condition.last_transition_time),
        )


class VolumeSharing:
    """Shares parts of persistent volumes.

    Caches a volume per storage class as a model.
    """

    def __init__(self) -> None:
        self._models: Models[str, PersistentVolume] = Models()
        self._same = SharedValues(_VALUES)
        self._same_moment = SharedValues(_MOMENTS)
        self._same_map = SharedMaps(_MODELS, LARGEST_MODEL)

    def share(self, volume: PersistentVolume, before: PersistentVolume | None) -> PersistentVolume:
        """Return an equal volume that shares parts with earlier ones."""
        key = volume.spec.storage_class_name
        model = self._models.get(key)
        nearest = before or model or PersistentVolume()
        moment = self._same_moment(volume.status.last_phase_transition_time)
        shared = PersistentVolume(
            metadata=_own_metadata(
                volume.metadata, nearest.metadata, self._same_moment, self._same_map
            ),
            spec=self._spec(volume.spec, nearest.spec),
            status=_share_parts(volume.status, nearest.status, last_phase_transition_time=moment),
        )
        if model is None or (model.spec.claim_ref is None and shared.spec.claim_ref is not None):
            self._models.store(key, shared)
        return shared

    def _spec(
        self, spec: PersistentVolumeSpec, model: PersistentVolumeSpec
    ) -> PersistentVolumeSpec:
        csi, reference = spec.csi, spec.claim_ref
        if csi is not None and model.csi is not None:
            csi = _share_parts(csi, model.csi, volume_handle=csi.volume_handle)
        if reference is not None and model.claim_ref is not None:
            reference = _share_parts(
                reference,
                model.claim_ref,
                namespace=self._same(reference.namespace),
                name=reference.name,
                uid=reference.uid,
                resource_version=reference.resource_version,
            )
        affinity = spec.node_affinity
        if affinity is not None and len(_encode(affinity)) <= LARGEST_MODEL:
            affinity = self._same(affinity)
        return _share_parts(spec, model, csi=csi, claim_ref=reference, node_affinity=affinity)


class ClaimSharing:
    """Shares parts of claims; caches a claim per class and namespace as a model."""

    def __init__(self) -> None:
        self._models: Models[tuple[str, str | None], PersistentVolumeClaim] = Models()
        self._same_moment = SharedValues(_MOMENTS)
        self._same_map = SharedMaps(_VALUES, LARGEST_MODEL)

    def share(
        self, claim: PersistentVolumeClaim, before: PersistentVolumeClaim | None
    ) -> PersistentVolumeClaim:
        """Return an equal claim that shares parts with earlier ones."""
        key = claim.metadata.namespace, claim.spec.storage_class_name
        model = self._models.get(key)
        nearest = before or model or PersistentVolumeClaim()
        shared = PersistentVolumeClaim(
            metadata=_own_metadata(
                claim.metadata, nearest.metadata, self._same_moment, self._same_map
            ),
            spec=_share_parts(claim.spec, nearest.spec, volume_name=claim.spec.volume_name),
            status=_share_parts(claim.status, nearest.status),
        )
        if model is None or (not model.status.capacity and shared.status.capacity):
            self._models.store(key, shared)
        return shared


class SharedMaps(Weighed[tuple[tuple[str, str], ...], dict[str, str]]):
    """Labels and annotations, each shared by all equal ones."""

    __slots__ = ()

    def __call__(self, value: dict[str, str]) -> dict[str, str]:
        if not value:
            return value
        key = tuple(value.items())
        found = self.get(key)
        if found is None:
            found = value
            self.put(key, found, sum(map(weight_of_texts, key)))
        return found


def _own_metadata(
    metadata: ObjectMeta, model: ObjectMeta, same_moment: SharedValues, same_map: SharedMaps
) -> ObjectMeta:
    """Share the metadata of an object that has its own labels and annotations."""
    return _share_parts(
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
    return _share_parts(volume, model, name=volume.name)


def _share_each(
    new: tuple[S, ...], model: tuple[S, ...], alike: Callable[[S, S], S]
) -> tuple[S, ...]:
    if new == model:
        return model
    if len(new) != len(model):
        return new
    return tuple(map(alike, new, model))


def _share_parts(new: S, model: S, **own: Any) -> S:
    """Return `new` with the equal parts of the model; `own` parts are taken as given.

    The own parts must equal those of `new`. Usually all other parts are the model's.
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
                own[name] = theirs if part == theirs else _share_inner_parts(part, theirs)
    return replace(new, **own)


def _share_inner_parts(part: Any, model: Any) -> Any:
    """Return a part that differs from the model's, with equal inner parts shared."""
    if isinstance(part, Struct):
        return part if model is None else _share_parts(part, model)
    if isinstance(part, tuple) and part and isinstance(part[0], Struct):
        return part if model is None else _share_each(part, model, _share_parts)
    return part
