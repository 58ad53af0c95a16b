"""Handles exceptions that no other code expects, so that one pod does not stop the loop.

Expected failures are handled in `failure.py`. An exception that arrives here is a bug, or was
raised by a plugin at an unexpected place.
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
    """Requeues pods whose attempts ended in an unexpected exception."""

    def __init__(self, cache: Cache, queue: SchedulingQueue, clock: Clock) -> None:
        self._cache, self._queue, self._clock = cache, queue, clock

    def put_back(self, queued: QueuedPodInfo, error: BaseException) -> None:
        """Remove the pod from the cache if it is assumed, and requeue it after its backoff."""
        pod = queued.pod
        log.exception("An attempt at a pod ended in an unexpected error", error, pod=pod)
        try:
            if self._cache.is_assumed(pod):
                self._cache.forget_pod(self._cache.get_pod(pod))
            queued.unschedulable_plugins = set()
            queued.pending_plugins = set()
            queued.gating_plugin = ""
            if self._queue.serves(pod):
                self._queue.add_unschedulable_if_not_present(queued, self._clock.now_ns())
        except KubeschedError as exc:
            log.error("Pod could not be put back", exc=exc, pod=pod)
        finally:
            self._queue.done(pod.metadata.uid)
