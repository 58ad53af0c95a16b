"""A net below the loop: an attempt that breaks off costs its pod a while, and nobody else theirs.

Expected failures never come here (`failure.py`). What does is a bug, or code of somebody else that
was called where nobody thought of it.
"""

from __future__ import annotations

from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue import SchedulingQueue

__all__ = ["BrokenAttempts"]

log = get_logger(__name__)


class BrokenAttempts:
    """Puts pods back whose attempts broke off somewhere."""

    def __init__(self, cache: Cache, queue: SchedulingQueue, clock: Clock) -> None:
        self._cache, self._queue, self._clock = cache, queue, clock

    def put_back(self, queued: QueuedPodInfo, error: BaseException) -> None:
        """Take back whatever was assumed of a pod that was not handed on, and have it wait."""
        pod = queued.pod
        log.exception("An attempt at a pod broke off", error, pod=pod)
        try:
            if self._cache.is_assumed(pod):
                self._cache.forget_pod(self._cache.get_pod(pod))
            queued.unschedulable_plugins = set()
            queued.pending_plugins = set()
            queued.gating_plugin = ""
            self._queue.add_unschedulable_if_not_present(queued, self._clock.now_ns())
        except KubeschedError as exc:
            log.error("Pod could not be put back", exc=exc, pod=pod)
        finally:
            self._queue.done(pod.metadata.uid)
