"""Deletion of a namespace: first its pods, then its other objects, then the namespace.

A namespace that is being deleted accepts no new objects. Whenever an object in it is removed,
the store calls `advance`, because that object may have been the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.stored_records import Record

__all__ = ["NamespaceDeletion"]

Json = dict[str, Any]

# The finalizer in a namespace's spec; it stays while the namespace contains objects.
_FINALIZER = "kubernetes"


class NamespaceDeletion:
    """Carries out the deletion of namespaces, step by step.

    `delete` begins the deletion of an object. `commit` replaces the record of a namespace by one
    with new JSON. `remove` removes an object.
    """

    def __init__(
        self,
        collections: Mapping[str, Collection],
        delete: Callable[[Record, int], None],
        commit: Callable[[Record, Json], Record],
        remove: Callable[[Record], None],
    ) -> None:
        self._collections = collections
        self._delete, self._commit, self._remove = delete, commit, remove
        self._in_progress: set[str] = set()  # names of namespaces

    def begin(self, namespace: Record, now_ns: int) -> None:
        """Mark a namespace as terminating and take the first step of its deletion."""
        data = namespace.data
        if "deletionTimestamp" not in data["metadata"]:
            metadata = {**data["metadata"], "deletionTimestamp": format_timestamp(now_ns)}
            status = {**data.get("status", {}), "phase": "Terminating"}
            self._commit(namespace, {**data, "metadata": metadata, "status": status})
        self.advance(namespace.key, now_ns)

    def advance(self, name: str, now_ns: int) -> None:
        """Take the next step of a namespace's deletion.

        Does nothing if the namespace is not being deleted, or if this call comes from within a
        step for the same namespace.
        """
        namespace = self._namespace(name)
        if namespace is None or "deletionTimestamp" not in namespace.data["metadata"]:
            return
        if name in self._in_progress:
            return
        self._in_progress.add(name)
        try:
            self._delete_objects("pods", name, now_ns)
            remaining = self._remaining_objects(name)
            if "pods" not in remaining:
                for key, collection in self._collections.items():
                    if collection.resource.namespaced:
                        self._delete_objects(key, name, now_ns)
                remaining = self._remaining_objects(name)
            self._update_namespace(name, remaining, now_ns)
        finally:
            self._in_progress.discard(name)

    def _namespace(self, name: str) -> Record | None:
        return self._collections["namespaces"].objects.get(name)

    def _objects_of(self, key: str, name: str) -> list[Record]:
        prefix = f"{name}/"
        objects = self._collections[key].objects
        return [record for at, record in objects.items() if at.startswith(prefix)]

    def _delete_objects(self, key: str, name: str, now_ns: int) -> None:
        for record in self._objects_of(key, name):
            if "deletionTimestamp" not in record.data["metadata"]:
                self._delete(record, now_ns)

    def _remaining_objects(self, name: str) -> dict[str, list[Record]]:
        """Return the objects that the namespace still contains, by resource."""
        found = {
            key: self._objects_of(key, name)
            for key, collection in self._collections.items()
            if collection.resource.namespaced
        }
        return {key: records for key, records in found.items() if records}

    def _update_namespace(
        self, name: str, remaining: Mapping[str, list[Record]], now_ns: int
    ) -> None:
        """Write the conditions of a namespace, or remove it if nothing remains."""
        namespace = self._namespace(name)
        assert namespace is not None
        data = namespace.data
        before = data.get("status", {}).get("conditions", ())
        status = {**data.get("status", {}), "conditions": _conditions(remaining, before, now_ns)}
        if remaining:
            if data.get("status") != status:
                self._commit(namespace, {**data, "status": status})
            return
        spec = data.get("spec", {})
        finalizers = [each for each in spec.get("finalizers", ()) if each != _FINALIZER]
        if not finalizers and not data["metadata"].get("finalizers"):
            self._remove(namespace)
        elif len(finalizers) < len(spec.get("finalizers", ())):
            spec = {**spec, "finalizers": finalizers}
            self._commit(namespace, {**data, "spec": spec, "status": status})


class _Condition(NamedTuple):
    kind: str
    holds: bool
    reason: str
    message: str


# These conditions are always false here: discovery and deletion of content cannot fail.
_ALWAYS_FALSE = (
    _Condition(
        "NamespaceDeletionDiscoveryFailure",
        False,
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    _Condition(
        "NamespaceDeletionGroupVersionParsingFailure",
        False,
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    _Condition(
        "NamespaceDeletionContentFailure",
        False,
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


def _content_condition(remaining: Mapping[str, list[Record]]) -> _Condition:
    kind = "NamespaceContentRemaining"
    if not remaining:
        return _Condition(kind, False, "ContentRemoved", "All content successfully removed")
    counts = ", ".join(
        f"{key}{'' if '.' in key else '.'} has {len(records)} resource instances"
        for key, records in sorted(remaining.items())
    )
    message = f"Some resources are remaining: {counts}"
    return _Condition(kind, True, "SomeResourcesRemain", message)


def _finalizer_condition(remaining: Mapping[str, list[Record]]) -> _Condition:
    kind = "NamespaceFinalizersRemaining"
    held = Counter(
        finalizer
        for records in remaining.values()
        for record in records
        for finalizer in record.data["metadata"].get("finalizers", ())
    )
    if not held:
        message = "All content-preserving finalizers finished"
        return _Condition(kind, False, "ContentHasNoFinalizers", message)
    counts = ", ".join(
        f"{name} in {count} resource instances" for name, count in sorted(held.items())
    )
    message = f"Some content in the namespace has finalizers remaining: {counts}"
    return _Condition(kind, True, "SomeFinalizersRemain", message)


def _conditions(remaining: Mapping[str, list[Record]], before: Any, now_ns: int) -> list[Json]:
    times = {
        (each.get("type"), each.get("status")): each["lastTransitionTime"]
        for each in before
        if each.get("lastTransitionTime")
    }
    current = (*_ALWAYS_FALSE, _content_condition(remaining), _finalizer_condition(remaining))
    conditions = []
    for kind, holds, reason, message in current:
        status = "True" if holds else "False"
        since = times.get((kind, status), format_timestamp(now_ns))
        conditions.append(
            {
                "type": kind,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        )
    return conditions
