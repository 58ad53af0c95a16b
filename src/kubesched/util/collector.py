"""How the garbage collector is set up for a process that keeps a cluster in memory.

Almost everything here is freed when its last reference goes; the collector is only needed for
cycles, such as an exception and the frames it passed through. It finds them by walking over all
containers there are, and stops everything meanwhile, so it should not meet the cluster each time.
"""

from __future__ import annotations

import gc

__all__ = ["settle_collector"]

# Containers made and not yet freed before the youngest are looked at. With the default of 700
# much is looked at that is freed by itself a moment later; with 10,000 the middle generation,
# ten times that, takes tens of milliseconds.
_YOUNG = 2_000


def settle_collector() -> None:
    """Set aside all there is, as here to stay. Call it once, when the caches have synced.

    What is set aside is still freed with its last reference; only cycles among it are never
    found. What comes later is collected as usual.
    """
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    gc.collect()
    gc.freeze()
