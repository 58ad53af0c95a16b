"""QueueSort: keys of plugins, made so that they can be compared whatever they are.

A key that cannot be compared with another would fail where pods are taken from the queue, which
concerns all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Plugin, QueuedPodInfo

__all__ = ["sort_key_of"]

log = get_logger(__name__)

_OURS = "kubesched.scheduler.plugins."


def sort_key_of(plugin: Plugin) -> Callable[[QueuedPodInfo], Any]:
    """What orders the queue. Pods for which the plugin has no key come last."""
    if type(plugin).__module__.startswith(_OURS):
        return plugin.sort_key  # in C as far as it goes: this is done for every pod

    def sort_key(queued: QueuedPodInfo) -> _Turn:
        try:
            return _Turn(plugin.sort_key(queued), has_failed=False)
        except BaseException as exc:
            pass_on_interrupt(exc)
            log.exception("QueueSort failed", exc, plugin=plugin.name, pod=queued.pod)
            return _Turn(None, has_failed=True)

    return sort_key


class _Turn:
    """A key; keys that cannot be compared are taken for equal, and pods go as they came."""

    __slots__ = ("_has_failed", "_key")

    def __init__(self, key: Any, *, has_failed: bool) -> None:
        self._key, self._has_failed = key, has_failed

    def __lt__(self, other: _Turn) -> bool:
        if self._has_failed or other._has_failed:
            return other._has_failed and not self._has_failed
        try:
            return bool(self._key < other._key)
        except BaseException as exc:
            pass_on_interrupt(exc)
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Turn) and not self < other and not other < self
