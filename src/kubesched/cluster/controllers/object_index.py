"""The objects that the controllers have cached, with indexes over them.

The control loop adds the response of each write at once, so that a plan never depends on how fast
a watch is. A stale watch event does not overwrite a newer object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kubesched.api import OwnerReference, Pod, PodDisruptionBudget, ResourceClaim, Service
from kubesched.api.base import ApiObject
from kubesched.api.labels import Selector
from kubesched.api.time import parse_time
from kubesched.cluster.controllers.pods_by_label import PodsByLabel
from kubesched.cluster.controllers.storage_index import StorageIndex
from kubesched.foundation.util.clock import SECOND

__all__ = [
    "ObjectIndex",
    "controller_of",
    "controller_reference",
    "is_active",
    "is_available",
    "is_ready",
    "ready_since_ns",
]

_FINISHED = ("Succeeded", "Failed")
_EMPTY: dict[Any, Any] = {}


class ObjectIndex:
    """Objects by uid, by kind, namespace and name, by owner, and pods by node."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        # The indexes hold uids, so that most changes of an object touch none of them.
        self._by_kind: dict[type, dict[str, None]] = {}
        # The kinds of which there has been an object. A kind is never removed.
        self.kinds = self._by_kind.keys()
        self._by_namespace: dict[str, dict[type, dict[str, None]]] = {}
        self._by_name: dict[tuple[type, str, str], str] = {}
        self._owned: dict[str, dict[str, None]] = {}
        self._orphans: dict[tuple[type, str], dict[str, None]] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        # Uids of ResourceClaims, by the uids of the pods that they are reserved for.
        self._reserved: dict[str, dict[str, None]] = {}
        self.storage = StorageIndex()
        self._pods_by_label = PodsByLabel()
        # Whether the server has pod groups with ResourceClaims.
        self.has_group_claims = False
        # Whether there has been a PodDisruptionBudget or a Service: these read whole namespaces.
        self.has_namespace_readers = False
        # Uids of objects that a controller has deleted and that a watch may still report.
        self._deleted: set[str] = set()
        # Returns the whole JSON of an object, by kind, name and namespace.
        self.documents: Callable[[type[ApiObject], str, str], Mapping[str, Any] | None] = (
            lambda _kind, _name, _namespace: None
        )
        # Why the server rejected a creation, by the uid of the owner that it was for.
        self.refused: dict[str, str] = {}

    def get(self, uid: str) -> Any | None:
        return self._objects.get(uid)

    def find(self, kind: type[ApiObject], namespace: str, name: str) -> Any | None:
        uid = self._by_name.get((kind, namespace, name))
        return None if uid is None else self._objects[uid]

    def document(
        self, kind: type[ApiObject], namespace: str, name: str
    ) -> Mapping[str, Any] | None:
        """Return the whole JSON of an object, with fields that its type does not declare."""
        return self.documents(kind, name, namespace)

    def all(self, kind: type[ApiObject]) -> Collection[Any]:
        return self._resolve(self._by_kind.get(kind, _EMPTY))

    def within(self, kind: type[ApiObject], namespace: str) -> Collection[Any]:
        """Return the objects of a kind in a namespace."""
        return self._resolve(self.uids_within(namespace).get(kind, _EMPTY))

    def pods_matching(self, namespace: str, selector: Selector) -> list[Pod]:
        """Return the pods of a namespace whose labels match a selector."""
        if selector.is_nothing:
            return []
        index, objects = self._pods_by_label, self._objects
        if missing := index.missing_keys(selector):
            index.add_keys(missing, self.all(Pod))
        uids = index.candidates(namespace, selector)
        pods = self.within(Pod, namespace) if uids is None else [objects[uid] for uid in uids]
        return [pod for pod in pods if selector.matches(pod.metadata.labels)]

    def uids_within(self, namespace: str) -> Mapping[type, Mapping[str, None]]:
        """Return the uids of the objects in a namespace, by kind."""
        found: dict[type, dict[str, None]] = self._by_namespace.get(namespace, _EMPTY)
        return found

    def orphans(self, kind: type[ApiObject], namespace: str) -> Collection[Any]:
        """Return the objects of a kind in a namespace that have no controller."""
        return self._resolve(self._orphans.get((kind, namespace), _EMPTY))

    def _resolve(self, uids: Mapping[str, None]) -> Collection[Any]:
        objects = self._objects
        return [objects[uid] for uid in uids]

    def reserved_for(self, uid: str) -> Sequence[str]:
        """Return the uids of the ResourceClaims that are reserved for a pod or a pod group."""
        return tuple(self._reserved.get(uid, ()))

    def pods_on(self, node: str) -> Collection[Pod]:
        return self._resolve(self._on_node.get(node, _EMPTY))

    def observe(self, subject: Any) -> bool:
        """Add or update an object. Return False if the index has a newer version."""
        metadata = subject.metadata
        uid = metadata.uid
        if uid in self._deleted:
            return False
        kind = type(subject)
        before = self._objects.get(uid)
        if before is None:
            self._add(subject)
        else:
            if _version(before) >= _version(subject):
                return False
            if before.metadata.owner_references != metadata.owner_references:
                self._remove_from_owners(before)
                self._add_to_owners(subject)
        if kind is not Pod or subject.spec.volumes or (before and before.spec.volumes):
            self.storage.observe(subject, before)
        self._objects[uid] = subject
        if kind is Pod:
            self._pods_by_label.observe(subject, before)
            node = subject.spec.node_name
            if node and (before is None or before.spec.node_name != node):
                self._on_node.setdefault(node, {})[uid] = None
        elif kind is ResourceClaim:
            self._update_reservations(subject, before)
        return True

    def _update_reservations(self, claim: ResourceClaim, before: ResourceClaim | None) -> None:
        if before is not None:
            self._remove_reservations(before)
        for user in claim.status.reserved_for:
            self._reserved.setdefault(user.uid, {})[claim.metadata.uid] = None

    def _add(self, new: Any) -> None:
        kind, metadata = type(new), new.metadata
        uid, namespace = metadata.uid, metadata.namespace
        if kind is PodDisruptionBudget or kind is Service:
            self.has_namespace_readers = True
        self._by_kind.setdefault(kind, {})[uid] = None
        self._by_namespace.setdefault(namespace, {}).setdefault(kind, {})[uid] = None
        self._by_name[kind, namespace, metadata.name] = uid
        self._add_to_owners(new)

    def _add_to_owners(self, subject: Any) -> None:
        """Index an object by its owners, and as an orphan if it has no controller."""
        metadata = subject.metadata
        key = type(subject), metadata.namespace
        if controller_of(subject) is None:
            self._orphans.setdefault(key, {})[metadata.uid] = None
        else:
            self._orphans.get(key, _EMPTY).pop(metadata.uid, None)
        for owner in metadata.owner_references:
            self._owned.setdefault(owner.uid, {})[metadata.uid] = None

    def mark_deleted(self, uid: str) -> None:
        """Remove an object that a controller has deleted, and ignore its late watch events."""
        if uid in self._objects:
            self._deleted.add(uid)
            self._drop(uid)

    def remove(self, uid: str) -> None:
        """Remove an object that a watch has reported as deleted."""
        self._deleted.discard(uid)
        self._drop(uid)

    def _drop(self, uid: str) -> None:
        removed = self._objects.pop(uid, None)
        if removed is None:
            return
        kind, metadata = type(removed), removed.metadata
        del self._by_kind[kind][uid]
        del self._by_namespace[metadata.namespace][kind][uid]
        if self._by_name.get((kind, metadata.namespace, metadata.name)) == uid:
            del self._by_name[kind, metadata.namespace, metadata.name]
        self._orphans.get((kind, metadata.namespace), {}).pop(uid, None)
        if isinstance(removed, Pod):
            self._pods_by_label.remove(removed)
            if removed.spec.node_name:
                self._on_node.get(removed.spec.node_name, {}).pop(uid, None)
        if isinstance(removed, ResourceClaim):
            self._remove_reservations(removed)
        self.storage.remove(removed)
        self.refused.pop(uid, None)
        self._remove_from_owners(removed)

    def _remove_reservations(self, claim: ResourceClaim) -> None:
        for user in claim.status.reserved_for:
            held = self._reserved.get(user.uid)
            if held is not None:
                held.pop(claim.metadata.uid, None)
                if not held:
                    del self._reserved[user.uid]

    def _remove_from_owners(self, subject: Any) -> None:
        for owner in subject.metadata.owner_references:
            owned = self._owned.get(owner.uid)
            if owned is not None:
                owned.pop(subject.metadata.uid, None)
                if not owned:
                    del self._owned[owner.uid]

    def uids(self, kind: type[ApiObject]) -> set[str]:
        return set(self._by_kind.get(kind, _EMPTY))

    def dependents(self, uid: str) -> list[Any]:
        """Return the objects whose owner references name this uid."""
        return [self._objects[owned] for owned in self._owned.get(uid, ())]

    def count_owned(self, uid: str) -> int:
        """Return how many objects have this uid among their owner references."""
        return len(self._owned.get(uid, ()))

    def controlled(self, uid: str, kind: type[ApiObject]) -> list[Any]:
        """Return the objects of a kind that this owner controls."""
        return [
            each
            for each in self.dependents(uid)
            if type(each) is kind
            and (owner := controller_of(each)) is not None
            and owner.uid == uid
        ]


def _version(subject: Any) -> int:
    version = subject.metadata.resource_version
    return int(version) if version.isdecimal() else 0


def controller_reference(owner: Any) -> dict[str, Any]:
    """Build the owner reference for objects that this owner controls."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(subject: Any) -> OwnerReference | None:
    """Return the owner reference of an object's controller."""
    for owner in subject.metadata.owner_references:
        if owner.controller:
            return owner  # type: ignore[no-any-return]
    return None


def is_active(pod: Pod) -> bool:
    """Whether a pod has not finished and is not being deleted."""
    return pod.status.phase not in _FINISHED and pod.metadata.deletion_timestamp is None


def is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def is_available(pod: Pod, min_ready_seconds: int, now_ns: int) -> bool:
    """Whether a pod has been ready for `min_ready_seconds`."""
    if not min_ready_seconds:
        return is_ready(pod)
    since = ready_since_ns(pod)
    return since is not None and since + min_ready_seconds * SECOND <= now_ns


def ready_since_ns(pod: Pod) -> int | None:
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "True":
            time = condition.last_transition_time
            return None if time is None else parse_time(time)
    return None
