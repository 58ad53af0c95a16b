"""In which order pods arrive and nodes are preferred, from a seed (docs/reference/10 §2, §12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from examples.gpu_fragmentation.generator import Generator
from examples.gpu_fragmentation.trace import GpuPod

__all__ = ["Arrivals", "arrivals"]

# Draws that other parts of the published program took in between.
_DRAWN_BEFORE_SHUFFLE, _DRAWN_BEFORE_RANKS = 1, 10


class Arrivals(NamedTuple):
    """What a seed decides: the pods in order, and the rank of each node, by its place by name."""

    pods: list[GpuPod]
    ranks: list[int]


def arrivals(pods: Sequence[GpuPod], nodes: int, target_milli: float, seed: int) -> Arrivals:
    """Shuffle the pods (given by name), bring their GPU need to the target, and rank the nodes."""
    generator = Generator(seed)
    for _ in range(_DRAWN_BEFORE_SHUFFLE):
        generator.next63()
    order = list(pods)
    for last in range(len(order) - 1, 0, -1):
        other = generator.below_for_shuffle(last + 1)
        order[last], order[other] = order[other], order[last]
    _tune(order, pods, target_milli, generator)
    for _ in range(_DRAWN_BEFORE_RANKS):
        generator.next63()
    ranks: list[int] = []
    for place in range(nodes):
        other = generator.below(place + 1)
        ranks.append(place)
        ranks[place] = ranks[other]
        ranks[other] = place
    return Arrivals(order, ranks)


def _tune(
    order: list[GpuPod], pods: Sequence[GpuPod], target_milli: float, generator: Generator
) -> None:
    """Append copies of random pods until the target is reached, or remove some."""
    need = sum(pod.need for pod in order)
    if need > target_milli:
        while need > target_milli:
            need -= order.pop(generator.below(len(order))).need
        return
    while True:
        drawn = pods[generator.below(len(pods))]
        # One device is counted here, of however many the pod asks for: as published.
        if need + drawn.milli > target_milli:
            return
        order.append(drawn)
        need += drawn.need
