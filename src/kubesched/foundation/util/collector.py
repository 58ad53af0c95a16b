"""Settings of the garbage collector for a process with a whole cluster in memory.

Almost every object is freed with its last reference. The collector is only needed for cycles, such
as an exception and the frames of its traceback. It finds them by traversing all containers, which
blocks the process. Therefore long-lived objects are frozen (`gc.freeze`): the collector no longer
traverses them, and they are still freed with their last reference. A frozen cycle would never be
freed, so everything is unfrozen and collected when the frozen objects have grown much.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator

__all__ = ["collecting_rarely", "reclaim_set_aside", "settle_collector"]

# The thresholds of the three generations. An object that survives two collections is mostly
# long-lived, so it moves to the oldest generation at once. That one is collected after at most
# 84,000 surviving objects, which takes about 20 ms.
_THRESHOLDS = (2_000, 0, 20)
_LONG_NS = 10_000_000
# The thresholds for work whose single steps may be delayed, such as a simulation.
_RARELY = 150
# Everything is collected again after growth by this ratio and by this number of objects.
_GROWN_SHARE, _GROWN = 0.5, 50_000


def settle_collector() -> None:
    """Freeze all objects now, and after each long collection those that survived it.

    Call it when a process begins, and when its caches have synced. Frozen cycles are found by the
    next full collection, other cycles as usual.
    """
    gc.set_threshold(*_THRESHOLDS)
    gc.collect()
    gc.freeze()
    _set_aside.full_collection_ended()
    if _set_aside not in gc.callbacks:
        gc.callbacks.append(_set_aside)


def reclaim_set_aside() -> None:
    """Collect the frozen objects once.

    Call it after a whole cluster was dropped: its parts refer to each other, so a frozen one would
    stay in memory. Does nothing if no object was frozen since the last call.
    """
    if _set_aside.has_set_aside:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        _set_aside.full_collection_ended()
        _set_aside.has_set_aside = False


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Collect the oldest generation rarely while the block runs.

    For work whose single steps may be delayed, such as a run in virtual time: a few long pauses
    cost less there than many short ones.
    """
    youngest, middle, oldest = gc.get_threshold()
    gc.set_threshold(youngest, middle, max(oldest, _RARELY))
    try:
        yield
    finally:
        gc.set_threshold(youngest, middle, oldest)


class _SetAside:
    """Freezes what a long collection of the oldest generation leaves, so that the next is short."""

    def __init__(self) -> None:
        self._began_ns = 0
        self.has_set_aside = False
        self._in_use = 0  # the number of objects at the last full collection
        self._at_most = 0  # an upper bound of the frozen objects: some may have been freed
        self._looks_at_everything = False

    def full_collection_ended(self) -> None:
        """Record that every frozen object is in use."""
        self._in_use = self._at_most = gc.get_freeze_count()
        self._looks_at_everything = False

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != 2:
            return
        # Processor time, because other processes may run at the same time.
        now_ns = time.thread_time_ns()
        if phase == "start":
            self._began_ns = now_ns
        elif self._looks_at_everything:
            gc.freeze()
            self.has_set_aside = True
            self.full_collection_ended()
        elif now_ns - self._began_ns > _LONG_NS:
            self._at_most += len(gc.get_objects())
            gc.freeze()
            self.has_set_aside = True
            if self._has_grown():
                # `gc.unfreeze()` takes effect at the next collection; none can start during a
                # collection
                gc.unfreeze()
                self._looks_at_everything = True

    def _has_grown(self) -> bool:
        """Whether the number of objects has grown much since the last full collection."""
        limit = self._in_use * (1 + _GROWN_SHARE) + _GROWN
        if self._at_most > limit:
            # Counting traverses all frozen objects, so count only when the bound is exceeded.
            self._at_most = gc.get_freeze_count()
        return self._at_most > limit


_set_aside = _SetAside()
