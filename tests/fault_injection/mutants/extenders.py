"""Mutants of attempts with extenders."""

from __future__ import annotations

from typing import Any

from tests.fault_injection.mutants.mutant import (
    Mutant,
    no,
    nothing,
    replace,
    replace_names,
    without_call,
    wrap,
)

__all__ = ["MUTANTS"]

_CHAIN = "kubesched.scheduler.extenders.chain.Extenders"
_TASKS = "kubesched.scheduler.cycles.extender_tasks.ExtenderTasks"
_ATTEMPT = "kubesched.scheduler.cycles.extender_attempt.ExtenderAttempt"


async def _ignore_filter(
    original: Any, self: Any, extenders: Any, pod: bytes, nodes: Any, *args: Any
) -> Any:
    await original(self, extenders, pod, nodes, *args)
    return list(nodes)


async def _ask_no_extender(original: Any, self: Any, _extenders: Any, *args: Any) -> Any:
    return await original(self, (), *args)


def _ignore_deletion(original: Any, self: Any) -> None:
    if self._current_pod() is not None:
        original(self)


MUTANTS = {
    "no extender is called": Mutant(
        39, (replace(f"{_CHAIN}.names_asked_about", lambda *_: frozenset()),)
    ),
    "the rejections of an extender are ignored": Mutant(
        248, (wrap(f"{_CHAIN}.filter", _ignore_filter),)
    ),
    "an extender stays busy": Mutant(248, (replace(f"{_TASKS}._end", nothing),)),
    "changes during a call to an extender are ignored": Mutant(
        248, (replace(f"{_ATTEMPT}._renew", no),)
    ),
    "rejections of an extender are never dropped": Mutant(
        189,
        (
            replace(f"{_TASKS}.follow", nothing),
            without_call(f"{_TASKS}.forget", "self._context.refused.pop"),
        ),
    ),
    "no extender reviews victims": Mutant(
        248, (wrap(f"{_CHAIN}.review_victims", _ask_no_extender),)
    ),
    "a pod that changes during a call to an extender is placed": Mutant(
        3, (replace_names(f"{_ATTEMPT}._check_pod", _differ=no),)
    ),
    "a pod that is deleted during a call to an extender is placed": Mutant(
        70, (wrap(f"{_ATTEMPT}._check_pod", _ignore_deletion),)
    ),
}
