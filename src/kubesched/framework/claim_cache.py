"""Cache of resource claims: watched claims, and this scheduler's own writes at once.

The watch delivers a write of the scheduler with a delay. Until then the cache returns the object
from the server's response (the "assumed" object), so that no device is allocated twice and no pod
waits for the watch event (docs/reference/08 §3.3). The cache notifies listeners of both kinds of
change, in the order in which they were added. Indices are added before the queue: a pod that is
retried finds them up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import msgspec

from kubesched.api import ObjectMeta, ResourceClaim, ResourceClaimStatus
from kubesched.errors import CacheError

__all__ = ["ClaimCache", "compare_versions"]

OnClaim = Callable[[ResourceClaim | None, ResourceClaim | None], None]


class _Versioned(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


class _Entry(msgspec.Struct, gc=False):
    watched: ResourceClaim
    latest: ResourceClaim


class ClaimCache:
    """A lister of claims that also accepts the results of own writes, before the watch has them."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, _Entry]] = {}
        self._listeners: tuple[OnClaim, ...] = ()
        # Called when devices become free and no change of a claim shows that.
        self.on_return: OnClaim | None = None

    def get(self, name: str, namespace: str | None = None) -> ResourceClaim | None:
        entry = self._entry(name, namespace)
        return None if entry is None else entry.latest

    def list(self, namespace: str | None = None) -> Collection[ResourceClaim]:
        if namespace is not None:
            return [entry.latest for entry in self._namespaces.get(namespace, {}).values()]
        return [entry.latest for each in self._namespaces.values() for entry in each.values()]

    def follow(self, listener: OnClaim) -> Callable[[], None]:
        """Call the listener with present claims and with changes (old or None, new or None).

        Returns a function that removes the listener.
        """
        self._listeners = (*self._listeners, listener)
        for claim in self.list():
            listener(None, claim)

        def remove() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

        return remove

    def gave_back(self, old: ResourceClaim, new: ResourceClaim) -> None:
        """Report that a claim released its devices or never got them, so that pods are retried."""
        if self.on_return is not None:
            self.on_return(old, new)

    def watched(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Apply a watched change, unless it is older than the assumed object."""
        if new is None:
            if old is not None:
                self._delete(old)
            return
        entry = self._entry(new.metadata.name, new.metadata.namespace)
        if entry is None:
            entries = self._namespaces.setdefault(new.metadata.namespace, {})
            entries[new.metadata.name] = _Entry(new, new)
            self._notify(None, new)
            return
        before = entry.latest
        if not _is_newer(new, before):
            return
        entry.watched = entry.latest = new
        self._notify(before, new)

    def _delete(self, gone: ResourceClaim) -> None:
        namespace, name = gone.metadata.namespace, gone.metadata.name
        entries = self._namespaces.get(namespace, {})
        entry = entries.pop(name, None)
        if entry is None:
            return
        if not entries:
            del self._namespaces[namespace]
        self._notify(entry.latest, None)

    def assume(self, written: ResourceClaim) -> None:
        """Assume the object that the server returned for a write.

        Raises:
            CacheError: the claim is not known (yet), or a newer state of it is.
        """
        metadata = written.metadata
        entry = self._entry(metadata.name, metadata.namespace)
        if entry is None:
            raise CacheError(f'could not find ResourceClaim "{metadata.namespace}/{metadata.name}"')
        before = entry.latest
        if compare_versions(written, before) < 0:
            raise CacheError(
                f'ResourceClaim "{metadata.namespace}/{metadata.name}" is out of sync: version '
                f"{metadata.resource_version} is older than {before.metadata.resource_version}"
            )
        entry.latest = written
        self._notify(before, written)

    def restore(self, name: str, namespace: str) -> None:
        """Return to the watched object."""
        entry = self._entry(name, namespace)
        if entry is not None and entry.latest is not entry.watched:
            before, entry.latest = entry.latest, entry.watched
            self._notify(before, entry.latest)

    def _entry(self, name: str, namespace: str | None) -> _Entry | None:
        return self._namespaces.get(namespace or "", {}).get(name)

    def _notify(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for listener in self._listeners:
            listener(old, new)
        if old is not None and _gave_back_unseen(old, new):
            self.gave_back(old, msgspec.structs.replace(old, status=ResourceClaimStatus()))


def _gave_back_unseen(old: ResourceClaim, new: ResourceClaim | None) -> bool:
    """Whether devices became free in a change: the claim was deleted, or has other devices."""
    had = old.status.allocation
    if had is None:
        return False
    if new is None:
        return True
    return new.status.allocation is not None and new.status.allocation.devices != had.devices


def _is_newer(watched: ResourceClaim, known: ResourceClaim) -> bool:
    """Whether a watched claim is new; it is not if it is the result of an own write."""
    if watched.metadata.uid != known.metadata.uid:
        return True
    order = compare_versions(watched, known)
    return order > 0 or (order == 0 and watched != known)


def compare_versions(one: _Versioned, other: _Versioned) -> int:
    """Compare versions; positive if the first is newer, 0 if one of them is not from a server."""
    version, known = one.metadata.resource_version, other.metadata.resource_version
    if version == known or not version.isdecimal() or not known.isdecimal():
        return 0
    return int(version) - int(known)
