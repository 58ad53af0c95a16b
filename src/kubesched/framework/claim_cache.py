"""Resource claims as this scheduler knows them: the watched ones, and its own writes at once.

A write of the scheduler comes back by watch a while later. Until then the object that the server
answered with is taken for the truth ("assumed"), so that no device is given twice and no pod
waits for an echo (docs/reference/08 §3.3). Listeners hear of both kinds of change, in the order
in which they were added; indices are added before the queue, so that a pod that is tried again
finds them up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from kubesched.api import ResourceClaim, ResourceClaimStatus
from kubesched.errors import CacheError

__all__ = ["ClaimCache"]

OnClaim = Callable[[ResourceClaim | None, ResourceClaim | None], None]


class _Entry(msgspec.Struct, gc=False):
    watched: ResourceClaim
    latest: ResourceClaim


class ClaimCache:
    """A lister of claims that can be told of writes before the watch is."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, _Entry]] = {}
        self._listeners: tuple[OnClaim, ...] = ()
        self.on_return: OnClaim | None = None
        """Hears of devices that are free again though no change of a claim shows that."""

    def get(self, name: str, namespace: str | None = None) -> ResourceClaim | None:
        entry = self._entry(name, namespace)
        return None if entry is None else entry.latest

    def list(self, namespace: str | None = None) -> Collection[ResourceClaim]:
        if namespace is not None:
            return [entry.latest for entry in self._namespaces.get(namespace, {}).values()]
        return [entry.latest for each in self._namespaces.values() for entry in each.values()]

    def follow(self, listener: OnClaim) -> None:
        """Tell the listener of every change as (old or None, new or None), and of what is here."""
        self._listeners = (*self._listeners, listener)
        for claim in self.list():
            listener(None, claim)

    def gave_back(self, old: ResourceClaim, new: ResourceClaim) -> None:
        """A claim has devices no more, or never got them: who waits for some hears of it."""
        if self.on_return is not None:
            self.on_return(old, new)

    def watched(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Take in a change that was watched; one that is older than what is assumed is not news."""
        if new is None:
            if old is not None:
                self._delete(old)
            return
        entry = self._entry(new.metadata.name, new.metadata.namespace)
        if entry is None:
            entries = self._namespaces.setdefault(new.metadata.namespace, {})
            entries[new.metadata.name] = _Entry(new, new)
            self._tell(None, new)
            return
        before = entry.latest
        if not _is_news(new, before):
            return
        entry.watched = entry.latest = new
        self._tell(before, new)

    def _delete(self, gone: ResourceClaim) -> None:
        namespace, name = gone.metadata.namespace, gone.metadata.name
        entries = self._namespaces.get(namespace, {})
        entry = entries.pop(name, None)
        if entry is None:
            return
        if not entries:
            del self._namespaces[namespace]
        self._tell(entry.latest, None)

    def assume(self, written: ResourceClaim) -> None:
        """Take what the server answered to a write for the truth.

        Raises:
            CacheError: the claim is not known (yet), or a newer state of it is.
        """
        metadata = written.metadata
        entry = self._entry(metadata.name, metadata.namespace)
        if entry is None:
            raise CacheError(f'could not find ResourceClaim "{metadata.namespace}/{metadata.name}"')
        before = entry.latest
        if _compare_versions(written, before) < 0:
            raise CacheError(
                f'ResourceClaim "{metadata.namespace}/{metadata.name}" is out of sync: version '
                f"{metadata.resource_version} is older than {before.metadata.resource_version}"
            )
        entry.latest = written
        self._tell(before, written)

    def restore(self, name: str, namespace: str) -> None:
        """Go back to what was watched."""
        entry = self._entry(name, namespace)
        if entry is not None and entry.latest is not entry.watched:
            before, entry.latest = entry.latest, entry.watched
            self._tell(before, entry.latest)

    def _entry(self, name: str, namespace: str | None) -> _Entry | None:
        return self._namespaces.get(namespace or "", {}).get(name)

    def _tell(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for listener in self._listeners:
            listener(old, new)
        if old is not None and _gave_back_unseen(old, new):
            self.gave_back(old, msgspec.structs.replace(old, status=ResourceClaimStatus()))


def _gave_back_unseen(old: ResourceClaim, new: ResourceClaim | None) -> bool:
    """Whether a claim is gone with its devices, or has others: a watch passed over a state."""
    had = old.status.allocation
    if had is None:
        return False
    if new is None:
        return True
    return new.status.allocation is not None and new.status.allocation.devices != had.devices


def _is_news(watched: ResourceClaim, known: ResourceClaim) -> bool:
    """Whether a watched claim says more than what is known; not so the echo of an own write."""
    if watched.metadata.uid != known.metadata.uid:
        return True
    order = _compare_versions(watched, known)
    return order > 0 or (order == 0 and watched != known)


def _compare_versions(one: ResourceClaim, other: ResourceClaim) -> int:
    """Positive: the first is newer. Versions of objects that no server stored say nothing: 0."""
    version, known = one.metadata.resource_version, other.metadata.resource_version
    if version == known or not version.isdecimal() or not known.isdecimal():
        return 0
    return int(version) - int(known)
