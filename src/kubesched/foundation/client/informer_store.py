"""The store of an informer: the objects of one kind by name (docs/reference/02 §10.3).

The class performs no I/O: it takes watch events and complete lists, and returns the changes for the
handlers. It is also the lister that plugins read. The returned collections are live views, which
are valid until the next `await`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

import msgspec

from kubesched.api.access import WatchEvent

__all__ = ["ObjectStore", "StoreChange"]

T = TypeVar("T", bound=msgspec.Struct)
T_co = TypeVar("T_co", bound=msgspec.Struct, covariant=True)


class StoreChange(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change: an addition has no `old`, a deletion no `new`.

    With `final_state_unknown` the watch missed the deletion: a later list did not contain the
    object, and `old` is the last known state, which may be stale.
    """

    old: T | None
    new: T | None
    final_state_unknown: bool = False


class ObjectStore(Generic[T]):
    """Objects by namespace and name. Cluster-scoped objects have the empty namespace."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, T]] = {}
        self._listeners: tuple[Callable[[T | None, T | None], None], ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def get(self, name: str, namespace: str | None = None) -> T | None:
        objects = self._namespaces.get(namespace or "")
        return None if objects is None else objects.get(name)

    def list(self, namespace: str | None = None) -> Collection[T]:
        """Return the objects of a namespace; None means all namespaces."""
        if namespace is not None:
            objects = self._namespaces.get(namespace)
            return () if objects is None else objects.values()
        if len(self._namespaces) == 1:
            (objects,) = self._namespaces.values()
            return objects.values()
        return _AllNamespaces(self._namespaces)

    def follow(self, listener: Callable[[T | None, T | None], None]) -> Callable[[], None]:
        """Call the listener for every object, and then for every change. It must not raise.

        Returns a function that removes the listener.
        """
        self._listeners = (*self._listeners, listener)
        for present in list(self.list()):
            listener(None, present)

        def remove() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

        return remove

    @property
    def listener_count(self) -> int:
        """The number of listeners."""
        return len(self._listeners)

    def apply(self, event: WatchEvent[T]) -> StoreChange[T] | None:
        """Apply one event. Returns None if it changes nothing.

        The content of the store decides whether an object is new, not the type of the event.
        """
        new = event.object
        if new is None:
            return None
        metadata: Any = new.metadata  # type: ignore[attr-defined]  # every kind has it
        namespace, name = metadata.namespace, metadata.name
        objects = self._namespaces.get(namespace)
        if event.type == "DELETED":
            known: Any = None if objects is None else objects.pop(name, None)
            if known is None:
                return None
            if not objects:
                del self._namespaces[namespace]
            # If the object was recreated between two watches, the handlers have not received its
            # first version.
            is_another = known.metadata.uid != metadata.uid
            gone = known if is_another else new
            self._notify(gone, None)
            return StoreChange(gone, None, final_state_unknown=is_another)
        if objects is None:
            objects = self._namespaces[namespace] = {}
        old = objects.get(name)
        objects[name] = new
        if self._listeners:
            self._notify(old, new)
        return StoreChange(old, new)

    def replace(self, listed: Iterable[T]) -> Sequence[StoreChange[T]]:
        """Replace the content by a new list.

        The changes are the deletions first, then every listed object in list order: as an
        addition, or as an update even if it is the same as before.
        """
        before, self._namespaces = self._namespaces, {}
        changes: list[StoreChange[T]] = []
        for new in listed:
            metadata: Any = new.metadata  # type: ignore[attr-defined]
            self._namespaces.setdefault(metadata.namespace, {})[metadata.name] = new
            old = before.get(metadata.namespace, {}).get(metadata.name)
            changes.append(StoreChange(old, new))
        gone = [
            StoreChange[T](old, None, final_state_unknown=True)
            for namespace, objects in before.items()
            for name, old in objects.items()
            if self.get(name, namespace) is None
        ]
        if self._listeners:
            for change in (*gone, *changes):
                self._notify(change.old, change.new)
        return gone + changes

    def _notify(self, old: T | None, new: T | None) -> None:
        for listener in self._listeners:
            listener(old, new)


class _AllNamespaces(Collection[T_co]):
    """A view of the objects of every namespace."""

    def __init__(self, namespaces: dict[str, dict[str, T_co]]) -> None:
        self._namespaces = namespaces

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def __iter__(self) -> Iterator[T_co]:
        return chain.from_iterable(objects.values() for objects in self._namespaces.values())

    def __contains__(self, candidate: object) -> bool:
        return any(candidate in objects.values() for objects in self._namespaces.values())


def is_older(version: str, known: str) -> bool:
    """Whether a version is older than another. False unless both are numbers."""
    return version.isdecimal() and known.isdecimal() and int(version) < int(known)
