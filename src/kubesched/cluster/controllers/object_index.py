"""What the controllers know of the cluster: objects, where they are, and who owns them.

A write's answer is taken in at once, so that a plan never counts on a watch being quick. What
a watch then brings late does not undo it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kubesched.api import OwnerReference, Pod, PodDisruptionBudget, ResourceClaim, Service
from kubesched.api.base import ApiObject
from kubesched.api.time import parse_time
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
    """Objects by uid, by kind, namespace and name; owned ones by their owners, pods by nodes."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        # Uids, so that a change of an object that stays where it is touches none of them.
        self._by_kind: dict[type, dict[str, None]] = {}
        self._by_namespace: dict[str, dict[type, dict[str, None]]] = {}
        self._by_name: dict[tuple[type, str, str], str] = {}
        self._owned: dict[str, dict[str, None]] = {}
        self._orphans: dict[tuple[type, str], dict[str, None]] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._reserved: dict[str, dict[str, None]] = {}
        """Uids of claims for devices, by the uids of the pods that have reserved them."""
        self.storage = StorageIndex()
        self.has_group_claims = False
        """Whether the server has pod groups, and claims that belong to them."""
        self.has_onlookers = False
        """Whether there has been anything that looks at all pods of its namespace."""
        self._gone: set[str] = set()
        """Uids of objects that we have deleted and that a watch may still show."""
        self.documents: Callable[[type[ApiObject], str, str], Mapping[str, Any] | None] = (
            lambda _kind, _name, _namespace: None
        )
        """Where all of an object's JSON can be had: by kind, name and namespace."""
        self.refused: dict[str, str] = {}
        """Why something could not be made, by the uid of the owner it was for."""

    def get(self, uid: str) -> Any | None:
        return self._objects.get(uid)

    def find(self, kind: type[ApiObject], namespace: str, name: str) -> Any | None:
        uid = self._by_name.get((kind, namespace, name))
        return None if uid is None else self._objects[uid]

    def document(
        self, kind: type[ApiObject], namespace: str, name: str
    ) -> Mapping[str, Any] | None:
        """All of an object's JSON, with fields that its type does not declare."""
        return self.documents(kind, name, namespace)

    def all(self, kind: type[ApiObject]) -> Collection[Any]:
        return self._known(self._by_kind.get(kind, _EMPTY))

    def within(self, kind: type[ApiObject], namespace: str) -> Collection[Any]:
        """Objects of a kind in a namespace."""
        return self._known(self.uids_within(namespace).get(kind, _EMPTY))

    def uids_within(self, namespace: str) -> Mapping[type, Mapping[str, None]]:
        """Uids of the objects in a namespace, by kind."""
        found: dict[type, dict[str, None]] = self._by_namespace.get(namespace, _EMPTY)
        return found

    def orphans(self, kind: type[ApiObject], namespace: str) -> Collection[Any]:
        """Objects of a kind in a namespace that nothing controls."""
        return self._known(self._orphans.get((kind, namespace), _EMPTY))

    def _known(self, uids: Mapping[str, None]) -> Collection[Any]:
        objects = self._objects
        return [objects[uid] for uid in uids]

    def reserved_by(self, uid: str) -> Sequence[str]:
        """Uids of the claims for devices that a pod has reserved."""
        return tuple(self._reserved.get(uid, ()))

    def has_claims_of(self, uid: str) -> bool:
        """Whether claims, or anything else, may be a pod's: owned by it, or reserved for it."""
        return uid in self._owned or uid in self._reserved

    def pods_on(self, node: str) -> Collection[Pod]:
        return self._known(self._on_node.get(node, _EMPTY))

    def observe(self, subject: Any) -> bool:
        """Take in an object. False if something newer is known."""
        metadata = subject.metadata
        uid = metadata.uid
        if uid in self._gone:
            return False
        kind = type(subject)
        known = self._objects.get(uid)
        if known is None:
            self._enter(subject)
        else:
            if _version(known) >= _version(subject):
                return False
            if known.metadata.owner_references != metadata.owner_references:
                self._disown(known)
                self._own(subject)
            if kind is ResourceClaim:
                self._unreserve(known)
        if kind is not Pod or subject.spec.volumes or (known and known.spec.volumes):
            self.storage.observe(subject, known)
        self._objects[uid] = subject
        if kind is Pod:
            node = subject.spec.node_name
            if node and (known is None or known.spec.node_name != node):
                self._on_node.setdefault(node, {})[uid] = None
        elif kind is ResourceClaim:
            for user in subject.status.reserved_for:
                self._reserved.setdefault(user.uid, {})[uid] = None
        return True

    def _enter(self, new: Any) -> None:
        kind, metadata = type(new), new.metadata
        uid, namespace = metadata.uid, metadata.namespace
        if kind is PodDisruptionBudget or kind is Service:
            self.has_onlookers = True
        self._by_kind.setdefault(kind, {})[uid] = None
        self._by_namespace.setdefault(namespace, {}).setdefault(kind, {})[uid] = None
        self._by_name[kind, namespace, metadata.name] = uid
        self._own(new)

    def _own(self, subject: Any) -> None:
        """Note whose an object is, or that nobody controls it."""
        metadata = subject.metadata
        place = type(subject), metadata.namespace
        if controller_of(subject) is None:
            self._orphans.setdefault(place, {})[metadata.uid] = None
        else:
            self._orphans.get(place, _EMPTY).pop(metadata.uid, None)
        for owner in metadata.owner_references:
            self._owned.setdefault(owner.uid, {})[metadata.uid] = None

    def expect_gone(self, uid: str) -> None:
        """Take note of a deletion that a watch will confirm."""
        if uid in self._objects:
            self._gone.add(uid)
            self._drop(uid)

    def forget(self, uid: str) -> None:
        """An object is gone, as a watch says."""
        self._gone.discard(uid)
        self._drop(uid)

    def _drop(self, uid: str) -> None:
        gone = self._objects.pop(uid, None)
        if gone is None:
            return
        kind, metadata = type(gone), gone.metadata
        del self._by_kind[kind][uid]
        del self._by_namespace[metadata.namespace][kind][uid]
        if self._by_name.get((kind, metadata.namespace, metadata.name)) == uid:
            del self._by_name[kind, metadata.namespace, metadata.name]
        self._orphans.get((kind, metadata.namespace), {}).pop(uid, None)
        if kind is Pod and gone.spec.node_name:
            self._on_node.get(gone.spec.node_name, {}).pop(uid, None)
        if isinstance(gone, ResourceClaim):
            self._unreserve(gone)
        self.storage.forget(gone)
        self.refused.pop(uid, None)
        self._disown(gone)

    def _unreserve(self, claim: ResourceClaim) -> None:
        for user in claim.status.reserved_for:
            held = self._reserved.get(user.uid)
            if held is not None:
                held.pop(claim.metadata.uid, None)
                if not held:
                    del self._reserved[user.uid]

    def _disown(self, known: Any) -> None:
        for owner in known.metadata.owner_references:
            owned = self._owned.get(owner.uid)
            if owned is not None:
                owned.pop(known.metadata.uid, None)
                if not owned:
                    del self._owned[owner.uid]

    def uids(self, kind: type[ApiObject]) -> set[str]:
        return set(self._by_kind.get(kind, _EMPTY))

    def dependents(self, uid: str) -> list[Any]:
        """Everything that names this owner."""
        return [self._objects[owned] for owned in self._owned.get(uid, ())]

    def count_owned(self, uid: str) -> int:
        """How many objects name this owner."""
        return len(self._owned.get(uid, ()))

    def controlled(self, uid: str, kind: type[ApiObject]) -> list[Any]:
        """Objects of a kind whose controller this owner is."""
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
    """The owner reference of an object that this one makes and manages."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(subject: Any) -> OwnerReference | None:
    for owner in subject.metadata.owner_references:
        if owner.controller:
            return owner  # type: ignore[no-any-return]
    return None


def is_active(pod: Pod) -> bool:
    """Whether a pod is running or still may."""
    return pod.status.phase not in _FINISHED and pod.metadata.deletion_timestamp is None


def is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def is_available(pod: Pod, min_ready_seconds: int, now_ns: int) -> bool:
    """Whether a pod has been ready for long enough."""
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
