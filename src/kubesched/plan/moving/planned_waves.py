"""The moves of a plan, in waves of steps."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["PlannedMove", "PlannedWave", "WaveStep", "cordoned_after"]


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is evicted, and the node on which its replacement is placed."""

    pod: str  # namespace/name
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    wave: int
    # The replacement, if it has another name in the rehearsal.
    replacement: str = ""
    uid: str = ""


class WaveStep(msgspec.Struct, frozen=True, kw_only=True):
    """Uncordon a node, and evict pods one after another.

    If another step follows, the node is cordoned again. The next step begins when `placed` of the
    evicted pods of the wave have a replacement on a node.
    """

    node: str
    evict: tuple[str, ...] = ()
    placed: int = 0


class PlannedWave(msgspec.Struct, frozen=True, kw_only=True):
    """Evictions that budgets allow together. The wave ends when all replacements are ready.

    The scheduler does not accept a target node for a pod. Therefore all nodes that could accept the
    pods are cordoned, and a step uncordons the intended one.
    """

    wave: int
    cordon: tuple[str, ...] = ()
    uncordon: tuple[str, ...] = ()
    steps: tuple[WaveStep, ...] = ()
    # Nodes that had to be uncordoned during the wave to place its pods.
    relief: tuple[str, ...] = ()

    @property
    def evict(self) -> tuple[str, ...]:
        """The pods of the wave, in the order of their evictions."""
        return tuple(pod for step in self.steps for pod in step.evict)


def cordoned_after(waves: Iterable[PlannedWave]) -> set[str]:
    """Return the nodes that are cordoned after some waves, including those cordoned before."""
    cordoned: set[str] = set()
    for wave in waves:
        opened = {step.node for step in wave.steps[-1:]}
        cordoned = (cordoned | set(wave.cordon)) - {*wave.uncordon, *wave.relief} - opened
    return cordoned
