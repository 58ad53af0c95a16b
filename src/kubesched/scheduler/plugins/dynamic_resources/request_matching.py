"""Whether all requests can get the number of devices that they need.

This is a bipartite matching of requests and devices: a request whose devices are all assigned
displaces another request, if that one has an alternative device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["DeviceDemand", "can_be_met"]


class DeviceDemand(NamedTuple):
    """The number of devices that a request needs, and the devices that it may have as bits."""

    need: int
    devices: int


def can_be_met(demands: Sequence[DeviceDemand], charge: Callable[[int], None]) -> bool:
    """Whether all demands can be met together."""
    total = sum(each.need for each in demands)
    # The smallest first: a demand with this many devices can always be met after the others.
    tight = [each for each in demands if each.devices.bit_count() < total]
    if not tight:
        return True
    tight.sort(key=lambda each: each.devices.bit_count())
    assigned = [0] * len(tight)
    free = 0
    for each in tight:
        free |= each.devices
    if free.bit_count() < sum(each.need for each in tight):
        return False
    for place, (need, _) in enumerate(tight):
        for _ in range(need):
            charge(1)
            free = _assign(tight, assigned, place, free, charge)
            if free < 0:
                return False
    return True


def _assign(
    demands: Sequence[DeviceDemand],
    assigned: list[int],
    place: int,
    free: int,
    charge: Callable[[int], None],
) -> int:
    """Assign one more device to a demand.

    Return the remaining devices, or -1 if that is impossible.
    """
    came_from: dict[int, tuple[int, int]] = {place: (-1, 0)}  # demand -> its taker, the device
    queue = [place]
    for current in queue:
        wanted = demands[current].devices & ~assigned[current]
        charge(1)
        if left := wanted & free:
            device = left & -left
            free ^= device
            while current >= 0:
                assigned[current] |= device
                taker, given = came_from[current]
                if taker >= 0:
                    assigned[current] ^= given
                current, device = taker, given
            return free
        for other in range(len(demands)):
            if other not in came_from and (held := wanted & assigned[other]):
                came_from[other] = (current, held & -held)
                queue.append(other)
    return -1
