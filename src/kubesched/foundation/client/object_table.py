"""A table of objects by kind, namespace and name, with listers and listeners.

It performs no I/O: objects are not watched or validated. `explain` stores a cluster in such a table
and replaces objects for what-if questions; `kubesched.testing.FakeObjects` is a subclass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.api.base import ApiObject

__all__ = ["ObjectLister", "ObjectTable"]

T = TypeVar("T", bound=msgspec.Struct)

# Takes the old and the new object. One of them is None if an object was added or removed.
Listener = Callable[[Any, Any], None]


class ObjectTable:
    """Objects of all kinds. Listeners receive every change in the order of the changes."""

    def __init__(self, objects: Iterable[ApiObject] = (), *, fills_uids: bool = False) -> None:
        """With `fills_uids` an object without a uid gets one that contains its name.

        Objects from files may have no uid, and plugins distinguish pods by it.
        """
        self._by_kind: dict[type[Any], dict[tuple[str, str], Any]] = {}
        self._fills_uids = fills_uids
        self.listeners: list[Listener] = []
        for each in objects:
            self.put(each)

    def __iter__(self) -> Iterator[Any]:
        for found in self._by_kind.values():
            yield from found.values()

    def put(self, new: Any) -> Any:
        """Add an object, or replace the one with its name. Returns the replaced one or None."""
        metadata = new.metadata
        key = (metadata.namespace, metadata.name)
        if self._fills_uids and not metadata.uid:
            uid = f"{type(new).__name__}/{'/'.join(filter(None, key))}"
            new = replace(new, metadata=replace(metadata, uid=uid))
        found = self._by_kind.setdefault(type(new), {})
        old = found.get(key)
        found[key] = new
        for listener in self.listeners:
            listener(old, new)
        return old

    def remove(self, kind: type[Any], name: str, namespace: str | None = None) -> Any:
        """Remove an object and return it; None if there is none."""
        old = self._by_kind.get(kind, {}).pop((namespace or "", name), None)
        if old is not None:
            for listener in self.listeners:
                listener(old, None)
        return old

    def get(self, kind: type[T], name: str, namespace: str | None = None) -> T | None:
        return self._by_kind.get(kind, {}).get((namespace or "", name))

    def list(self, kind: type[T], namespace: str | None = None) -> Collection[T]:
        """Return the objects of a kind in the order in which they were added.

        Without a namespace the collection is a view, which is valid until the next change.
        """
        found = self._by_kind.get(kind, {})
        if namespace is None:
            return found.values()
        return [each for (home, _), each in found.items() if home == namespace]

    def lister(self, kind: type[T]) -> ObjectLister[T]:
        return ObjectLister(self, kind)


class ObjectLister(Generic[T]):
    """Reads the objects of one kind from a table."""

    def __init__(self, objects: ObjectTable, kind: type[T]) -> None:
        self._objects = objects
        self._kind = kind

    def get(self, name: str, namespace: str | None = None) -> T | None:
        return self._objects.get(self._kind, name, namespace)

    def list(self, namespace: str | None = None) -> Collection[T]:
        return self._objects.list(self._kind, namespace)

    def follow(self, listener: Listener) -> Callable[[], None]:
        """Call the listener for every object of the kind, and then for every change.

        Returns a function that removes the listener.
        """
        kind = self._kind

        def of_this_kind(old: Any, new: Any) -> None:
            if type(old if new is None else new) is kind:
                listener(old, new)

        # In front, so that a listener that reacts to a change finds it in every index.
        self._objects.listeners.insert(0, of_this_kind)
        for present in tuple(self._objects.list(kind)):
            listener(None, present)
        return lambda: self._objects.listeners.remove(of_this_kind)
