"""Which changes make a controller plan again, declared as values.

Each controller declares its triggers beside its plan function (`Controller.triggers`).
`TriggerIndex` groups the triggers of all controllers by the kind of the changed object, so that a
change only runs the functions that are declared for its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kubesched.api.base import ApiObject
from kubesched.cluster.controllers.adoption import selector_of
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_of

__all__ = [
    "AdoptableObject",
    "FindKeys",
    "OwnChange",
    "RelatedChange",
    "SameNamespaceChange",
    "Trigger",
    "TriggerIndex",
    "controlled",
]

FindKeys = Callable[[ObjectIndex, Any, Any | None, bool], Sequence[str]]
# Returns the keys of the objects to plan for. The arguments are the index (which has the change
# already), the changed object, the object before the change (None if it is new), and whether it was
# deleted.

_EMPTY: Mapping[str, Any] = {}


class OwnChange(NamedTuple):
    """A change of an object makes the controller plan for this object."""

    kind: type[ApiObject]
    # Whether a change is relevant, by the object and the object before; None if all changes are.
    matters: Callable[[Any, Any | None], bool] | None = None


class RelatedChange(NamedTuple):
    """A change of an object makes the controller plan for other objects."""

    kind: type[ApiObject]
    # The kind to plan for. While there are no such objects, the function is not called.
    planned_kind: type[ApiObject]
    find_keys: FindKeys


class AdoptableObject(NamedTuple):
    """A change of an object without a controller: owners whose selector matches may adopt it."""

    kind: type[ApiObject]
    owner_kind: type[ApiObject]


class SameNamespaceChange(NamedTuple):
    """A change makes the controller plan for all of its objects in the same namespace.

    Such a plan reads a whole namespace. It runs after a delay, once for many changes.
    """

    kind: type[ApiObject]
    planned_kind: type[ApiObject]


Trigger = OwnChange | RelatedChange | AdoptableObject | SameNamespaceChange


def controlled(kind: type[ApiObject], *, by: type[ApiObject]) -> RelatedChange:
    """Trigger the controller of a changed object, and its former controller.

    Several controllers declare this for one kind. The index calls the function once per change.
    """
    return RelatedChange(kind, by, _controller_keys)


def _controller_keys(
    _objects: ObjectIndex, subject: Any, before: Any | None, _gone: bool
) -> Sequence[str]:
    metadata = subject.metadata
    former = before is not None and before.metadata.owner_references
    if not metadata.owner_references and not former:
        return ()
    owner = controller_of(subject)
    keys = () if owner is None else (owner.uid,)
    if before is None or before.metadata.owner_references == metadata.owner_references:
        return keys
    former_owner = controller_of(before)
    if former_owner is None or former_owner == owner:
        return keys
    return (*keys, former_owner.uid)


class _Finder(NamedTuple):
    """A function that finds keys, and the kinds of the objects that it may find."""

    find_keys: FindKeys
    planned_kinds: frozenset[type]


class TriggerIndex:
    """The triggers of all controllers, by the kind of the changed object."""

    def __init__(self, triggers: Iterable[Trigger]) -> None:
        unique = dict.fromkeys(triggers)
        self._finders: Mapping[type, tuple[_Finder, ...]] = {
            kind: tuple(_finders_for([each for each in unique if each.kind is kind]))
            for kind in {each.kind for each in unique}
        }
        # By the kind of a change: the functions that can find anything at present.
        self._active: dict[type, tuple[FindKeys, ...]] = {}
        self._kind_count = 0
        self._namespace_kinds: dict[type, tuple[type[ApiObject], ...]] = {}
        for each in unique:
            if isinstance(each, SameNamespaceChange):
                kinds = self._namespace_kinds.get(each.kind, ())
                self._namespace_kinds[each.kind] = (*kinds, each.planned_kind)

    def keys(
        self, objects: ObjectIndex, subject: Any, before: Any | None, *, gone: bool
    ) -> Sequence[str]:
        """Return the keys of the objects to plan for as soon as possible."""
        if len(objects.kinds) != self._kind_count:
            self._active.clear()
            self._kind_count = len(objects.kinds)
        kind = type(subject)
        active = self._active.get(kind)
        if active is None:
            active = self._active[kind] = self._active_functions(kind, objects)
        found: list[str] = []
        for find_keys in active:
            if keys := find_keys(objects, subject, before, gone):
                found += keys
        return found

    def _active_functions(self, kind: type, objects: ObjectIndex) -> tuple[FindKeys, ...]:
        return tuple(
            each.find_keys
            for each in self._finders.get(kind, ())
            if not objects.kinds.isdisjoint(each.planned_kinds)
        )

    def delayed_keys(self, objects: ObjectIndex, subject: Any) -> Iterator[str]:
        """Yield the keys of the objects to plan for when changes have settled."""
        kinds = self._namespace_kinds.get(type(subject))
        if kinds is not None:
            by_kind = objects.uids_within(subject.metadata.namespace)
            for kind in kinds:
                yield from by_kind.get(kind, ())


def _finders_for(triggers: Sequence[Trigger]) -> Iterator[_Finder]:
    """Merge the triggers for one kind: own changes first, then adoption, then the others."""
    own = [each for each in triggers if isinstance(each, OwnChange)]
    if any(each.matters is None for each in own):
        yield _Finder(_own_key, frozenset({own[0].kind}))
    elif own:
        conditions = [each.matters for each in own if each.matters is not None]
        yield _Finder(_own_key_if(conditions), frozenset({own[0].kind}))
    adopters = [each.owner_kind for each in triggers if isinstance(each, AdoptableObject)]
    if adopters:
        yield _Finder(_adopter_keys(tuple(adopters)), frozenset(adopters))
    related: dict[FindKeys, list[type]] = {}
    for each in triggers:
        if isinstance(each, RelatedChange):
            related.setdefault(each.find_keys, []).append(each.planned_kind)
    for find_keys, planned_kinds in related.items():
        yield _Finder(find_keys, frozenset(planned_kinds))


def _own_key(_objects: ObjectIndex, subject: Any, _before: Any | None, gone: bool) -> Sequence[str]:
    return () if gone else (subject.metadata.uid,)


def _own_key_if(conditions: Sequence[Callable[[Any, Any | None], bool]]) -> FindKeys:
    def find_keys(
        _objects: ObjectIndex, subject: Any, before: Any | None, gone: bool
    ) -> Sequence[str]:
        if not gone:
            for matters in conditions:
                if matters(subject, before):
                    return (subject.metadata.uid,)
        return ()

    return find_keys


def _adopter_keys(owner_kinds: tuple[type[ApiObject], ...]) -> FindKeys:
    """Find the owners of some kinds that select an object without a controller."""

    def find_keys(
        objects: ObjectIndex, subject: Any, _before: Any | None, _gone: bool
    ) -> Sequence[str]:
        metadata = subject.metadata
        if metadata.owner_references and controller_of(subject) is not None:
            return ()
        by_kind = objects.uids_within(metadata.namespace)
        if by_kind.keys().isdisjoint(owner_kinds):
            return ()
        return [
            uid
            for kind in owner_kinds
            for uid in by_kind.get(kind, _EMPTY)
            if selector_of(objects.get(uid)).matches(metadata.labels)
        ]

    return find_keys
