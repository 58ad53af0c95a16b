"""How the garbage collector is set up for a process that keeps a cluster in memory.

Almost everything here is freed when its last reference goes; the collector is only needed for
cycles, such as an exception and the frames it passed through. It finds them by walking over all
containers there are, and stops everything meanwhile. So what is here to stay is set aside: it is
then not walked over again, and still freed with its last reference. Cycles that are in use when
they are set aside would stay for ever: when much more is set aside than was in use when everything
was last looked at, everything is looked at again.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator

__all__ = ["collecting_rarely", "reclaim_set_aside", "settle_collector"]

# How many containers are made, and not freed, before the youngest are looked at, and how many
# times that happens before older ones are. What has been looked at twice is mostly here to stay,
# so it is left to the oldest generation at once. That is looked at after at most 84,000 that stay,
# which takes about 20 ms.
_THRESHOLDS = (2_000, 0, 20)
_LONG_NS = 10_000_000
# The same where nobody waits: what lives for hours of virtual time is not worth a look each time.
_RARELY = 150
# Everything is looked at again when there is half as much more of it, and so many.
_GROWN_SHARE, _GROWN = 0.5, 50_000


def settle_collector() -> None:
    """Set aside all there is, and from now on what a long collection leaves.

    Call it when a process begins, and when its caches have synced. Cycles among what is set aside
    are found when everything is looked at again. All others are, as usual.
    """
    gc.set_threshold(*_THRESHOLDS)
    gc.collect()
    gc.freeze()
    _set_aside.everything_was_looked_at()
    if _set_aside not in gc.callbacks:
        gc.callbacks.append(_set_aside)


def reclaim_set_aside() -> None:
    """Look once at what long collections have set aside, and free what is garbage by now.

    Call it where a whole cluster has just been dropped: its parts know each other, so one that was
    set aside would stay for long. Does nothing if nothing was set aside since the last time.
    """
    if _set_aside.has_set_aside:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        _set_aside.everything_was_looked_at()
        _set_aside.has_set_aside = False


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look at the oldest containers rarely while the block runs.

    For work that nobody waits for step by step, such as a run in virtual time: there a longer pause
    now and then does not matter, and many short ones only add up.
    """
    youngest, middle, oldest = gc.get_threshold()
    gc.set_threshold(youngest, middle, max(oldest, _RARELY))
    try:
        yield
    finally:
        gc.set_threshold(youngest, middle, oldest)


class _SetAside:
    """Follows collections of the oldest generation, and keeps the next one short."""

    def __init__(self) -> None:
        self._began_ns = 0
        self.has_set_aside = False
        self._in_use = 0  # how many there were when everything was last looked at
        self._at_most = 0  # so many are set aside by now, or fewer: some may have been freed
        self._looks_at_everything = False

    def everything_was_looked_at(self) -> None:
        """What is set aside now is in use, all of it."""
        self._in_use = self._at_most = gc.get_freeze_count()
        self._looks_at_everything = False

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != 2:
            return
        # Processor time: while others had the processor, nothing was walked over.
        now_ns = time.thread_time_ns()
        if phase == "start":
            self._began_ns = now_ns
        elif self._looks_at_everything:
            gc.freeze()
            self.has_set_aside = True
            self.everything_was_looked_at()
        elif now_ns - self._began_ns > _LONG_NS:
            self._at_most += len(gc.get_objects())
            gc.freeze()
            self.has_set_aside = True
            if self._has_grown():
                gc.unfreeze()  # for the next collection, as none can begin within one
                self._looks_at_everything = True

    def _has_grown(self) -> bool:
        """Whether there is much more than when everything was last looked at."""
        limit = self._in_use * (1 + _GROWN_SHARE) + _GROWN
        if self._at_most > limit:
            # Counting walks over all that is set aside, so it is done when it may matter.
            self._at_most = gc.get_freeze_count()
        return self._at_most > limit


_set_aside = _SetAside()
