"""The objects of a cluster by kind, namespace and name, with listers and changes that are undone.

Plain values: nothing is watched or written anywhere. A question such as "what if this node had
no taint" replaces an object for as long as a block runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.api.base import ApiObject

__all__ = ["ClusterObjects", "ObjectLister", "Objects"]

T = TypeVar("T", bound=msgspec.Struct)

Listener = Callable[[Any, Any], None]  # (old or None, new or None)


class Objects(Protocol):
    """Objects to be looked at: all that describing needs."""

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None: ...

    def list(self, kind: type[T], namespace: str | None = None) -> Collection[T]: ...


class ClusterObjects:
    """Objects of all kinds; listeners hear of every change in the order of the changes."""

    def __init__(self, objects: Iterable[ApiObject] = ()) -> None:
        self._by_kind: dict[type[Any], dict[tuple[str, str], Any]] = {}
        self.listeners: list[Listener] = []
        for each in objects:
            self.put(each)

    def put(self, new: Any) -> Any:
        """Add the object or replace the one of its name; returns what was there, or None.

        An object from a file may have no uid; plugins tell pods apart by it, so it gets one.
        """
        metadata = new.metadata
        if not metadata.uid:
            uid = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
            new = replace(new, metadata=replace(metadata, uid=f"{type(new).__name__}/{uid}"))
        found = self._by_kind.setdefault(type(new), {})
        key = (metadata.namespace, metadata.name)
        old = found.get(key)
        found[key] = new
        for listener in self.listeners:
            listener(old, new)
        return old

    def remove(self, kind: type[Any], name: str, namespace: str = "") -> Any:
        """Take an object away and return it; None if there was none."""
        old = self._by_kind.get(kind, {}).pop((namespace, name), None)
        if old is not None:
            for listener in self.listeners:
                listener(old, None)
        return old

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        return self._by_kind.get(kind, {}).get((namespace, name))

    def list(self, kind: type[T], namespace: str | None = None) -> Collection[T]:
        """Objects of a kind in the order in which they came."""
        found = self._by_kind.get(kind, {})
        if namespace is None:
            return found.values()
        return [each for (home, _), each in found.items() if home == namespace]

    def __iter__(self) -> Iterator[Any]:
        for found in self._by_kind.values():
            yield from found.values()

    def lister(self, kind: type[T]) -> ObjectLister[T]:
        return ObjectLister(self, kind)


class ObjectLister(Generic[T]):
    """The objects of one kind as they are at the moment of asking."""

    def __init__(self, objects: ClusterObjects, kind: type[T]) -> None:
        self._objects = objects
        self._kind = kind

    def get(self, name: str, namespace: str | None = None) -> T | None:
        return self._objects.get(self._kind, name, namespace or "")

    def list(self, namespace: str | None = None) -> Collection[T]:
        return self._objects.list(self._kind, namespace)

    def follow(self, listener: Listener) -> None:
        """Tell the listener of every change of the kind, and of what is there already."""
        kind = self._kind

        def of_this_kind(old: Any, new: Any) -> None:
            if type(old if new is None else new) is kind:
                listener(old, new)

        # First, so that whoever reacts to a change finds it in every index.
        self._objects.listeners.insert(0, of_this_kind)
        for present in list(self._objects.list(kind)):
            listener(None, present)
