"""Poses a puzzle and solves it; then its pod must be placed with nothing else happening."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubesched.cluster.apiserver import Store
from tests.torture.accounting import is_told_why
from tests.torture.cluster_plan import Step
from tests.torture.puzzles import Puzzle
from tests.torture.recount import stale_copies
from tests.torture.replica import Life
from tests.torture.second_look import answer_differences

__all__ = ["Posing"]

_HEARD_WITHIN_S = 0.2
_TOLD_WITHIN_S = 3
_SOLVED_WITHIN_S = (16, 30)
"""When to look whether a puzzle's pod is placed; backoff lasts ten seconds at the most."""
_ASKED_AGAIN = 4


class Posing:
    """`leading` are the processes that lead; `violated` hears what must not be, `tell` what is."""

    def __init__(
        self,
        leading: Callable[[], list[Life]],
        violated: Callable[[str], None],
        tell: Callable[[str], None],
    ) -> None:
        self._leading, self._violated, self._tell = leading, violated, tell

    async def pose(self, step: Step, puzzle: Puzzle, store: Store) -> None:
        self._tell(f"puzzle {puzzle.kind}: {puzzle.pod} is posed")
        before, may_act = self._leading(), self._may_act()
        await anext(puzzle.steps)
        may_act &= self._may_act()
        soon_s = min(_HEARD_WITHIN_S, step.pause_s)
        await asyncio.sleep(soon_s)
        may_act &= self._may_act()
        is_heard = self._is_up_to_date(store)  # a watch may stall
        await asyncio.sleep(step.pause_s - soon_s)
        may_act &= before == self._leading() and self._may_act()
        if is_heard:
            is_told = may_act and step.pause_s >= _TOLD_WITHIN_S
            self._look_before(puzzle, store, may_act=may_act, is_told=is_told)
        for life in self._leading():
            for text in answer_differences(life, most=_ASKED_AGAIN):
                self._violated(text)
        self._tell(f"puzzle {puzzle.kind}: it is solved")
        await anext(puzzle.steps)
        for pause_s in _SOLVED_WITHIN_S:
            await asyncio.sleep(pause_s)
            pod = store.find("pods", f"default/{puzzle.pod}")
            if pod is None or pod["spec"].get("nodeName") or not self._is_up_to_date(store):
                break
            if puzzle.needs_one_leader and not (may_act and before == self._leading()):
                break
        else:
            self._violated(f"puzzle {puzzle.kind}: {puzzle.pod} could be placed, and waits")
        # As far as one leader knew all the time what there was.
        if is_heard and may_act and before == self._leading():
            gone = [name for name in puzzle.spared if not store.find("pods", f"default/{name}")]
            if len(gone) > puzzle.victims:
                self._violated(f"puzzle {puzzle.kind}: {gone} went though nobody needed that")
        await anext(puzzle.steps, None)

    def _look_before(self, puzzle: Puzzle, store: Store, *, may_act: bool, is_told: bool) -> None:
        """See whether the pod waits, and is told why if `is_told`.

        Who begins to lead now does not know whom a gated pod keeps away, as in the reference, nor
        who was about to be bound or evicted. Who could write all the time, and has nothing under
        way any more, has told the pod.
        """
        pod = store.find("pods", f"default/{puzzle.pod}")
        if pod is None:
            return
        if pod["spec"].get("nodeName") and (may_act or not puzzle.needs_one_leader):
            self._violated(f"puzzle {puzzle.kind}: {puzzle.pod} is placed before it is solved")
        is_due = is_told and puzzle.is_told_why and self._is_idle() and self._is_up_to_date(store)
        if is_due and not is_told_why(pod):
            self._violated(f"puzzle {puzzle.kind}: {puzzle.pod} waits and is not told why")

    def _may_act(self) -> bool:
        return len(self._leading()) == 1 and all(
            life.fence is not None and life.fence.may_begin() for life in self._leading()
        )

    def _is_idle(self) -> bool:
        return not any(life.fence is None or life.fence.under_way for life in self._leading())

    def _is_up_to_date(self, store: Store) -> bool:
        """Whether there is one leader that goes on, and its watches have brought it all there is.

        One that ends may keep the lease for long, until nothing that it sent can take effect.
        """
        lives = self._leading()
        return (
            len(lives) == 1
            and not lives[0].scheduler.queue.is_closed
            and not any(stale_copies(lives[0].scheduler, store))
        )
