"""The parts of a profile that the queue uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kubesched.framework import Plugin, QueuedPodInfo
from kubesched.scheduler.backend.queue.queueing_hints import RegisteredHint

__all__ = ["QueueProfile", "QueueSortKey"]

# The smallest key is scheduled first. Read when a pod enters a queue or changes in it.
QueueSortKey = Callable[[QueuedPodInfo], Any]


class QueueProfile(NamedTuple):
    """A profile's sort key, PreEnqueue plugins and registered events."""

    scheduler_name: str
    sort_key: QueueSortKey
    pre_enqueue: Sequence[Plugin] = ()
    hints: Sequence[RegisteredHint] = ()
