"""How a namespace goes: its pods, then everything else in it, then itself.

A namespace that is being deleted takes nothing new. Each removal of something in it may be the one
that it waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kubesched.cluster.apiserver.rules.generated_metadata import stamp
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.stored_records import Record

__all__ = ["NamespaceDeletion"]

Json = dict[str, Any]

# The finalizer in a namespace's spec that stands for what is in it.
_FINALIZER = "kubernetes"


class NamespaceDeletion:
    """Carries deletions of namespaces on.

    `delete` begins the deletion of an object, `commit` stores a namespace's new JSON in place of a
    record, `remove` takes an object away.
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
        self._busy: set[str] = set()

    def begin(self, home: Record, now_ns: int) -> None:
        """Close a namespace, and delete what can be deleted."""
        if "deletionTimestamp" not in home.data["metadata"]:
            metadata = {**home.data["metadata"], "deletionTimestamp": stamp(now_ns)}
            status = {**home.data.get("status", {}), "phase": "Terminating"}
            self._commit(home, {**home.data, "metadata": metadata, "status": status})
        self.go_on(home.key, now_ns)

    def go_on(self, name: str, now_ns: int) -> None:
        """Take the next step for a namespace, if it is being deleted and no step is under way."""
        home = self._home(name)
        if home is None or "deletionTimestamp" not in home.data["metadata"] or name in self._busy:
            return
        self._busy.add(name)
        try:
            self._empty("pods", name, now_ns)
            left = self._left(name)
            if "pods" not in left:
                for key, collection in self._collections.items():
                    if collection.resource.namespaced:
                        self._empty(key, name, now_ns)
                left = self._left(name)
            self._tell(name, left, now_ns)
        finally:
            self._busy.discard(name)

    def _home(self, name: str) -> Record | None:
        return self._collections["namespaces"].objects.get(name)

    def _within(self, key: str, name: str) -> list[Record]:
        prefix = f"{name}/"
        objects = self._collections[key].objects
        return [record for at, record in objects.items() if at.startswith(prefix)]

    def _empty(self, key: str, name: str, now_ns: int) -> None:
        for record in self._within(key, name):
            if "deletionTimestamp" not in record.data["metadata"]:
                self._delete(record, now_ns)

    def _left(self, name: str) -> dict[str, list[Record]]:
        """What is still there, by resource."""
        found = {
            key: self._within(key, name)
            for key, collection in self._collections.items()
            if collection.resource.namespaced
        }
        return {key: records for key, records in found.items() if records}

    def _tell(self, name: str, left: Mapping[str, list[Record]], now_ns: int) -> None:
        home = self._home(name)
        assert home is not None
        conditions = _conditions(left, home.data.get("status", {}).get("conditions", ()), now_ns)
        status = {**home.data.get("status", {}), "conditions": conditions}
        if left:
            if home.data.get("status") != status:
                self._commit(home, {**home.data, "status": status})
            return
        spec = home.data.get("spec", {})
        finalizers = [each for each in spec.get("finalizers", ()) if each != _FINALIZER]
        if not finalizers and not home.data["metadata"].get("finalizers"):
            self._remove(home)
        elif len(finalizers) < len(spec.get("finalizers", ())):
            spec = {**spec, "finalizers": finalizers}
            self._commit(home, {**home.data, "spec": spec, "status": status})


class _Condition(NamedTuple):
    kind: str
    holds: bool
    reason: str
    message: str


# Nothing that is in a namespace can fail here to be found, or to be deleted.
_NEVER = (
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


def _remaining(left: Mapping[str, list[Record]]) -> _Condition:
    kind = "NamespaceContentRemaining"
    if not left:
        return _Condition(kind, False, "ContentRemoved", "All content successfully removed")
    counts = ", ".join(
        f"{key}{'' if '.' in key else '.'} has {len(records)} resource instances"
        for key, records in sorted(left.items())
    )
    message = f"Some resources are remaining: {counts}"
    return _Condition(kind, True, "SomeResourcesRemain", message)


def _held(left: Mapping[str, list[Record]]) -> _Condition:
    kind = "NamespaceFinalizersRemaining"
    held = Counter(
        finalizer
        for records in left.values()
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


def _conditions(left: Mapping[str, list[Record]], before: Any, now_ns: int) -> list[Json]:
    times = {
        (each.get("type"), each.get("status")): each["lastTransitionTime"]
        for each in before
        if each.get("lastTransitionTime")
    }
    made = []
    for kind, holds, reason, message in (*_NEVER, _remaining(left), _held(left)):
        status = "True" if holds else "False"
        since = times.get((kind, status), stamp(now_ns))
        made.append(
            {
                "type": kind,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        )
    return made
