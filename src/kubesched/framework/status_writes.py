"""Status writes of this scheduler that its informers may not have delivered yet.

A patch is the difference to a state of the object. An informer's copy is stale while a write is in
flight, and a difference to a stale copy is wrong: a needed change looks unnecessary, or an earlier
write arrives after a later one. Here the writes to one object are sent one after another, and each
is computed from the newest state: the given copy, the informer's, or the server's last answer.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.pod import Pod
from kubesched.api.scheduling import PodGroup
from kubesched.framework.claim_cache import compare_versions
from kubesched.framework.shared_state import SharedState

__all__ = ["StatusWrites", "status_writes"]

T = TypeVar("T", Pod, PodGroup)

_NAME = "status writes"
_CHECKED_ENTRIES = 2


class _Listed(Protocol):
    def get(self, name: str, namespace: str | None = None) -> Any: ...


class _Entry:
    """An object that is written, or whose last write the informer has not delivered."""

    def __init__(self, target: Pod | PodGroup) -> None:
        self.newest: Any = target
        self.turn = asyncio.Lock()
        self.writers = 0  # that wait for their turn, or write
        # Whether the outcome of the last write is unknown: the server may have made the change.
        self.is_uncertain = False


class StatusWrites:
    """Sends the status writes to each object in order, each computed from the newest state."""

    def __init__(self, lister: Callable[[type[Any]], _Listed]) -> None:
        self._lister = lister
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # by uid

    def __len__(self) -> int:
        return len(self._entries)

    async def write(
        self,
        api: ApiAccess,
        target: T,
        patch_of: Callable[[T], dict[str, Any] | None],
        send: Callable[[dict[str, Any]], Awaitable[T]],
    ) -> None:
        """Send the patch that `patch_of` returns for the newest state, unless it returns None.

        Earlier writes to the object end first. If the outcome of the last one is unknown, the state
        is read from `api`.

        Raises:
            ApiError: the state could not be read, or `send` failed.
        """
        uid = target.metadata.uid
        entry = self._entries.get(uid)
        if entry is None:
            entry = self._entries[uid] = _Entry(target)
        entry.writers += 1
        try:
            async with entry.turn:
                patch = patch_of(await self._newest(api, entry, target))
                if patch is not None:
                    await _send(entry, patch, send)
        finally:
            entry.writers -= 1
            self.remove_delivered()

    async def _newest(self, api: ApiAccess, entry: _Entry, target: T) -> T:
        metadata = target.metadata
        if entry.is_uncertain:
            found = await api.get(type(target), metadata.name, metadata.namespace)
            entry.is_uncertain = False
        else:
            found = self._lister(type(target)).get(metadata.name, metadata.namespace)
        entry.newest = _newest_of(entry.newest, target, found)
        newest: T = entry.newest
        return newest

    def newest_known(self, target: T) -> T | None:
        """Return the newest state of the object; None while a write to it is under way."""
        metadata = target.metadata
        entry = self._entries.get(metadata.uid)
        if entry is not None and (entry.writers or entry.is_uncertain):
            return None
        found = self._lister(type(target)).get(metadata.name, metadata.namespace)
        newest: T = _newest_of(target if entry is None else entry.newest, target, found)
        return newest

    def remove_delivered(self) -> None:
        """Remove the oldest entries whose objects are deleted, or are in the informer."""
        for _ in range(min(_CHECKED_ENTRIES, len(self._entries))):
            uid, entry = self._entries.popitem(last=False)
            if entry.writers or not self._is_delivered(entry):
                self._entries[uid] = entry

    def _is_delivered(self, entry: _Entry) -> bool:
        newest = entry.newest
        metadata = newest.metadata
        listed = self._lister(type(newest)).get(metadata.name, metadata.namespace)
        if listed is None or listed.metadata.uid != metadata.uid:
            return True
        return not entry.is_uncertain and compare_versions(listed, newest) >= 0


def _newest_of(newest: T, *others: T | None) -> T:
    """Return the newest of some versions of an object."""
    for each in others:
        if each is not None and each.metadata.uid == newest.metadata.uid:
            newest = each if compare_versions(each, newest) > 0 else newest
    return newest


async def _send(
    entry: _Entry, patch: dict[str, Any], send: Callable[[dict[str, Any]], Awaitable[Any]]
) -> None:
    entry.is_uncertain = True
    try:
        entry.newest = await send(patch)
        entry.is_uncertain = False
    except ApiError as exc:
        # Code 0: the connection was refused or broke.
        entry.is_uncertain = exc.code == 0 or exc.code >= 500
        raise


def status_writes(shared: SharedState, lister: Callable[[type[Any]], _Listed]) -> StatusWrites:
    """Return the object that all writers of a scheduler share."""
    return shared.get(_NAME, lambda: StatusWrites(lister))
