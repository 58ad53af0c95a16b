"""QueueSort: sort keys of plugins, wrapped so that comparing them never fails.

An exception in a comparison would occur while the queue pops, and stop all pods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Plugin, QueuedPodInfo

__all__ = ["sort_key_of"]

log = get_logger(__name__)

_OF_THE_PACKAGE = ("kubesched.scheduler.plugins.", "kubesched.contrib.")


def sort_key_of(plugin: Plugin) -> Callable[[QueuedPodInfo], Any]:
    """Return the queue's sort key. Pods for which the plugin fails come last."""
    if type(plugin).__module__.startswith(_OF_THE_PACKAGE):
        return plugin.sort_key  # without a wrapper, because it runs for every pod

    def sort_key(queued: QueuedPodInfo) -> _SafeKey:
        try:
            return _SafeKey(plugin.sort_key(queued), has_failed=False)
        except BaseException as exc:
            pass_on_interrupt(exc)
            log.exception("QueueSort failed", exc, plugin=plugin.name, pod=queued.pod)
            return _SafeKey(None, has_failed=True)

    return sort_key


class _SafeKey:
    """A sort key. Keys that cannot be compared count as equal: first in, first out."""

    __slots__ = ("_has_failed", "_key")

    def __init__(self, key: Any, *, has_failed: bool) -> None:
        self._key, self._has_failed = key, has_failed

    def __lt__(self, other: _SafeKey) -> bool:
        if self._has_failed or other._has_failed:
            return other._has_failed and not self._has_failed
        try:
            return bool(self._key < other._key)
        except BaseException as exc:
            pass_on_interrupt(exc)
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SafeKey) and not self < other and not other < self
