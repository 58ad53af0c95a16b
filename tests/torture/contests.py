"""Puzzles in which others have a say: plugins, extenders, and pods that are more important.

As in `puzzles.py`: each poses, solves, and cleans up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from kubesched.api import Node, Pod
from kubesched.api.access import ApiError
from tests.torture.moody_extender import PONDERED
from tests.torture.objects import FOO
from tests.torture.odd_plugin import HOLDS, NEEDS
from tests.torture.puzzle_parts import ASKS_EXTENDER, GATES, PuzzleParts

__all__ = ["OF_EXTENDERS", "OF_PLUGINS", "OF_PREEMPTION", "Steps"]

Json = dict[str, Any]
Steps = AsyncIterator[None]


# Plugins and extenders


async def _approval(puzzle: PuzzleParts) -> Steps:
    """A plugin has the pod wait in vain, and what is missing may come while it does.

    Other things happen as well, which must not be taken for it, nor hide it.
    """
    await puzzle.add_node()
    await puzzle.add_pod(annotations={NEEDS: puzzle.pod})
    yield
    if puzzle.dice.random() < 0.5:
        await puzzle.change(Node, puzzle.node, {"metadata": {"labels": {"noise": "before"}}})
    await puzzle.add_class()
    await puzzle.change(Node, puzzle.node, {"metadata": {"labels": {"noise": "after"}}})
    yield


async def _held(puzzle: PuzzleParts) -> Steps:
    """Another pod has the room, and loses it before it is bound."""
    way = puzzle.dice.choice(["fails", "refused", "permit"])
    is_deleted = puzzle.dice.random() < 0.4
    # Else others hear that a nomination is taken back, whatever becomes of the room.
    puzzle.refuse("PATCH", puzzle.dice.choice([0, 4]))
    await puzzle.add_node(amounts={"cpu": "1"})
    held = {"nodeName": "", "nodeSelector": puzzle.labels, "annotations": {HOLDS: way}}
    await puzzle.add_filler("800m", **held)
    await puzzle.until_nominated()
    await puzzle.add_pod()
    yield
    if is_deleted:
        await puzzle.remove_filler()
    elif way != "permit":  # which does not last
        await puzzle.add_class(puzzle.filler)
    puzzle.refuse("PATCH", 0)
    yield
    with contextlib.suppress(ApiError):
        await puzzle.remove_filler()


async def _bound_in_vain(puzzle: PuzzleParts) -> Steps:
    """Another pod has the room, its binding fails, and it goes before it is tried again."""
    await puzzle.add_node(amounts={"cpu": "1"})
    await puzzle.add_pod(schedulingGates=GATES)
    yield
    puzzle.refuse("POST", 1)
    await puzzle.add_filler("800m", nodeName="", nodeSelector=puzzle.labels)
    await asyncio.sleep(0.3)
    await puzzle.open_gate()
    await asyncio.sleep(2)
    with contextlib.suppress(ApiError):
        await puzzle.remove_filler()
    puzzle.refuse("POST", 0)
    yield


async def _second_thoughts(puzzle: PuzzleParts) -> Steps:
    """While an extender thinks about it, the pod becomes one that may not be there."""
    await puzzle.add_node(amounts={FOO: "100"})
    await puzzle.add_filler(affinity={"podAntiAffinity": puzzle.alone})
    await puzzle.add_pod(annotations={PONDERED: "yes"}, container=dict(ASKS_EXTENDER))
    await asyncio.sleep(puzzle.dice.choice([0.5, 1.5]))
    await puzzle.change(Pod, puzzle.pod, {"metadata": {"labels": puzzle.labels}})
    yield
    await puzzle.remove_filler()
    yield


async def _made_anew(puzzle: PuzzleParts) -> Steps:
    """While an extender thinks about it, the pod goes, and another has its name."""
    spec: Json = {"annotations": {PONDERED: "yes"}, "container": dict(ASKS_EXTENDER)}
    await puzzle.add_node(amounts={FOO: "100"})
    await puzzle.add_pod(schedulingGates=GATES, **spec)
    yield
    await puzzle.open_gate()
    await asyncio.sleep(puzzle.dice.choice([0.5, 1.5]))
    await puzzle.api.delete(Pod, puzzle.pod, "default", grace_period_seconds=0)
    await asyncio.sleep(puzzle.dice.choice([0.0, 0.3, 3.0]))
    spec = {"annotations": {PONDERED: "yes"}, "container": dict(ASKS_EXTENDER)}
    await puzzle.add_pod(**spec)
    yield


# Preemption


async def _makes_room(puzzle: PuzzleParts) -> Steps:
    """Who is there is less important, and goes; perhaps the server refuses that at first."""
    await puzzle.add_node(amounts={"cpu": "1"})
    await puzzle.add_filler("400m")
    await puzzle.add_filler("400m", suffix="0")
    if puzzle.dice.random() < 0.5:
        await puzzle.add_filler("100m", suffix="1")
        puzzle.spared = [f"{puzzle.filler}1"]  # there is room for this one
    await puzzle.add_pod("900m", priorityClassName="high", schedulingGates=GATES)
    yield
    puzzle.refuse("DELETE", puzzle.dice.choice([0, 1, 2, 3]))
    await puzzle.open_gate()
    yield
    puzzle.refuse("DELETE", 0)


async def _patient(puzzle: PuzzleParts) -> Steps:
    """Who is evicted takes a while to go, and something happens meanwhile: nobody else has to."""
    slowly = {"terminationGracePeriodSeconds": 5}
    for suffix in ("", "0"):
        await puzzle.add_node(amounts={"cpu": "1"}, suffix=suffix)
        name = puzzle.node + suffix
        await puzzle.add_filler("800m", suffix=suffix, nodeName=name, **slowly)
        puzzle.spared.append(puzzle.filler + suffix)
    puzzle.victims = 1
    await puzzle.add_pod(priorityClassName="high", schedulingGates=GATES)
    yield
    await puzzle.open_gate()
    await asyncio.sleep(puzzle.dice.choice([1.0, 2.5]))
    await puzzle.allow(cpu="1100m")
    yield


async def _usurped(puzzle: PuzzleParts) -> Steps:
    """Who is there is as important; then it is another, who is less."""
    await puzzle.add_node(amounts={"cpu": "1"})
    await puzzle.add_filler("800m", priorityClassName="high")
    await puzzle.add_pod(priorityClassName="high")
    yield
    await puzzle.remove_filler()
    await puzzle.add_filler("800m", suffix="0")
    yield


async def _ousted(puzzle: PuzzleParts) -> Steps:
    """Who has the room is less important and not bound yet: nobody need ask the server."""
    await puzzle.add_node(amounts={"cpu": "1"})
    way = puzzle.dice.choice(["refused", "long permit"])
    held = {"nodeName": "", "nodeSelector": puzzle.labels, "annotations": {HOLDS: way}}
    await puzzle.add_filler("800m", **held)
    await puzzle.add_pod(priorityClassName="high", schedulingGates=GATES)
    yield
    await puzzle.open_gate()
    yield
    with contextlib.suppress(ApiError):
        await puzzle.remove_filler()


async def _crowd(puzzle: PuzzleParts) -> Steps:
    """Of many that could go, one has to: the larger one on any of the nodes."""
    for suffix in "01234":
        await puzzle.add_node(amounts={"cpu": "1"}, suffix=suffix)
        for number, cpu in enumerate(("400m", "500m")):
            name = f"{suffix}{number}"
            await puzzle.add_filler(cpu, suffix=name, nodeName=puzzle.node + suffix)
            puzzle.spared.append(puzzle.filler + name)
    puzzle.victims = 1
    await puzzle.add_pod("600m", priorityClassName="high", schedulingGates=GATES)
    yield
    await puzzle.open_gate()
    yield


OF_PLUGINS: dict[str, Callable[[PuzzleParts], Steps]] = {
    "approval": _approval,
    "bound in vain": _bound_in_vain,
    "held": _held,
    "ousted": _ousted,
}
OF_EXTENDERS: dict[str, Callable[[PuzzleParts], Steps]] = {
    "second thoughts": _second_thoughts,
    "made anew": _made_anew,
}
OF_PREEMPTION: dict[str, Callable[[PuzzleParts], Steps]] = {
    "makes room": _makes_room,
    "usurped": _usurped,
    "patient": _patient,
    "crowd": _crowd,
}
