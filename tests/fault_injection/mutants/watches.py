"""Mutants of informers: lists, watches and their gaps."""

from __future__ import annotations

from typing import Any

from kubesched.api.access import ApiError
from tests.fault_injection.mutants.mutant import (
    Mutant,
    Overlay,
    no,
    replace_names,
    with_value,
    wrap,
)

__all__ = ["MUTANTS"]

_INFORMER = "kubesched.foundation.client.informer.SharedInformer"
_STORE = "kubesched.foundation.client.informer_store.ObjectStore"
_GONE = 410


def _keep_unlisted(original: Any, self: Any, listed: Any) -> Any:
    return [change for change in original(self, listed) if change.new is not None]


def _report_additions_only(original: Any, self: Any, listed: Any) -> Any:
    changes = original(self, listed)
    return [change for change in changes if change.old is None or change.new is None]


def _delete_another(original: Any, self: Any, event: Any) -> Any:
    metadata = None if event.object is None else event.object.metadata
    if event.type == "DELETED" and metadata is not None:
        objects = self._namespaces.get(metadata.namespace, {})
        if metadata.name in objects:
            objects[metadata.name] = event.object
    return original(self, event)


def _report_additions_first(original: Any, self: Any, listed: Any) -> Any:
    calls: list[Any] = []
    changes = original(Overlay(self, _notify=lambda *change: calls.append(change)), listed)
    for old, new in sorted(calls, key=lambda change: change[1] is None):
        self._notify(old, new)
    return sorted(changes, key=lambda change: change.new is None)


def _drop_some_deletions(original: Any, self: Any, event: Any) -> Any:
    if event.type == "DELETED" and event.object is not None:
        name = event.object.metadata.name
        if sum(map(ord, name)) % 4 == 0:
            return None
    return original(self, event)


def _resume_too_late(original: Any, self: Any, **options: Any) -> Any:
    version = str(int(self._version or "0") + 3) if self._version else ""
    return original(Overlay(self, _version=version), **options)


async def _retry_when_history_is_gone(original: Any, self: Any) -> Any:
    while True:
        try:
            return await original(self)
        except ApiError as error:
            if error.code != _GONE:
                raise
        await self._back_off(is_away=False)


async def _resume_before_the_list(original: Any, self: Any, listed: Any, _version: str) -> None:
    await original(self, listed, self._version)


async def _lose_last_object(original: Any, self: Any) -> Any:
    listed, version = await original(self)
    return listed[:-1] or listed, version


async def _keep_pages(original: Any, self: Any) -> Any:
    """List anew after an expired page, and add what the pages before it had."""
    kept: list[Any] = []

    async def listed(*args: Any, **options: Any) -> Any:
        page = await self._api.list(*args, **options)
        kept.extend(page.items)
        return page

    objects, version = await original(Overlay(self, _api=Overlay(self._api, list=listed)))
    there = {(each.metadata.namespace, each.metadata.name) for each in objects}
    lost = [each for each in kept if (each.metadata.namespace, each.metadata.name) not in there]
    return [*lost, *objects], version


def _without_deletions(notify: Any) -> Any:
    return lambda old, new: None if new is None else notify(old, new)


MUTANTS = {
    "objects that were deleted during a gap stay": Mutant(
        17, (wrap(f"{_STORE}.replace", _keep_unlisted),)
    ),
    "old events are applied again": Mutant(
        4, (replace_names(f"{_INFORMER}._take_in", is_older=no),)
    ),
    "a watch is resumed too late": Mutant(5, (wrap(f"{_INFORMER}._open_watch", _resume_too_late),)),
    "the end of a pod that was recreated unseen is that of the new one": Mutant(
        1, (wrap(f"{_STORE}.apply", _delete_another),)
    ),
    "a new list reports additions before deletions": Mutant(
        12, (wrap(f"{_STORE}.replace", _report_additions_first),)
    ),
    "some deletions are dropped": Mutant(0, (wrap(f"{_STORE}.apply", _drop_some_deletions),)),
    "a watch whose history is gone is retried for ever": Mutant(
        9, (wrap(f"{_INFORMER}._watch_until_lost", _retry_when_history_is_gone),)
    ),
    "a watch is resumed from before the list": Mutant(
        37, (wrap(f"{_INFORMER}._replace", _resume_before_the_list),)
    ),
    "updates during a gap are not reported": Mutant(
        12, (wrap(f"{_STORE}.replace", _report_additions_only),)
    ),
    "the last object of a list is lost": Mutant(
        480, (wrap(f"{_INFORMER}._fetch_pages", _lose_last_object),)
    ),
    "half of a list is kept after it expired": Mutant(
        36, (wrap(f"{_INFORMER}._fetch_pages", _keep_pages),)
    ),
    "a new list does not report deletions to plugins": Mutant(
        32, (with_value(f"{_STORE}.replace", "self._notify", _without_deletions),)
    ),
}
