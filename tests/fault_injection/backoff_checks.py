"""Checks of backoff: an independent count of failures (docs/reference/03 §3.1).

Backoff begins with one second, doubles with each failure, and is ten seconds at most. A streak of
errors has a count of its own, and ends with the first rejection.
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.foundation.util.clock import SECOND
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.backend.queue.scheduling_queue import QueueName

__all__ = ["BackoffChecker"]

_LONGEST_S = 10


class BackoffChecker:
    """Checks the backoff of each pod when it is requeued after a failed attempt.

    Faults of clocks do not matter: queue and checker use the time that the queue was given.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._counts: dict[int, tuple[QueuedPodInfo, int, int]] = {}  # rejections, errors in a row

    def put_back(self, queued: QueuedPodInfo, went_to: QueueName, now_ns: int) -> None:
        _, rejections, errors = self._counts.get(id(queued), (queued, 0, 0))
        if queued.rejectors:
            rejections, errors = rejections + 1, 0
        else:
            errors += 1
        self._counts[id(queued)] = queued, rejections, errors
        count = errors or rejections
        ends_ns = now_ns + min(2 ** (count - 1), _LONGEST_S) * SECOND
        ends_ns -= ends_ns % SECOND
        name = queued.pod.metadata.name
        if went_to is QueueName.BACKOFF and queued.backoff_expiration_ns != ends_ns:
            self._report(f"{name} failed {count} times and its backoff ends at a wrong time")
        if went_to is QueueName.ACTIVE and not queued.pending_plugins:
            self._report(f"{name} failed and has no backoff")
