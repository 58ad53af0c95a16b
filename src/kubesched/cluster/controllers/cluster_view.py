"""What the controllers know of the cluster: objects, and who owns them.

A write's answer is taken in at once, so that a plan never counts on a watch being quick. What
a watch then brings late does not undo it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesched.api import OwnerReference, Pod
from kubesched.api.base import ApiObject
from kubesched.api.time import parse_time
from kubesched.util.clock import SECOND

__all__ = [
    "View",
    "controller_of",
    "controller_reference",
    "is_active",
    "is_available",
    "is_ready",
    "ready_since_ns",
]

_FINISHED = ("Succeeded", "Failed")


class View:
    """Objects by uid, the owned ones also by the uid of their owners."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._owned: dict[str, dict[str, None]] = {}
        self._gone: set[str] = set()
        """Uids of objects that we have deleted and that a watch may still show."""

    def get(self, uid: str) -> Any | None:
        return self._objects.get(uid)

    def all(self, kind: type[ApiObject]) -> Iterator[Any]:
        return (each for each in self._objects.values() if isinstance(each, kind))

    def observe(self, subject: Any) -> bool:
        """Take in an object. False if something newer is known."""
        uid = subject.metadata.uid
        known = self._objects.get(uid)
        if uid in self._gone:
            return False
        if known is not None and _version(known) >= _version(subject):
            return False
        self._objects[uid] = subject
        for owner in subject.metadata.owner_references:
            self._owned.setdefault(owner.uid, {})[uid] = None
        return True

    def expect_gone(self, uid: str) -> None:
        """Take note of a deletion that a watch will confirm."""
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
        for owner in gone.metadata.owner_references:
            owned = self._owned.get(owner.uid)
            if owned is not None:
                owned.pop(uid, None)
                if not owned:
                    del self._owned[owner.uid]

    def uids(self, kind: type[ApiObject]) -> set[str]:
        return {uid for uid, each in self._objects.items() if isinstance(each, kind)}

    def dependents(self, uid: str) -> list[Any]:
        """Everything that names this owner."""
        return [self._objects[owned] for owned in self._owned.get(uid, ())]

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
