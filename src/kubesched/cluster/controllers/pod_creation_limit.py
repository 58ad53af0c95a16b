"""How many pods an owner gets just now, however many it wants.

A number is quickly written: `replicas: 2147483647` must not fill the memory of the process. Pods
that have a node are bounded by the nodes there are, so it is those that wait that are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kubesched.api import Pod
from kubesched.cluster.controllers.plans import Action, RecordEvent

__all__ = ["MOST_AT_ONCE", "MOST_WAITING", "limit_new_pods"]

MOST_AT_ONCE: Final = 500
"""Pods that one plan makes; the next one follows when these are there."""
MOST_WAITING: Final = 10_000
"""Pods of one owner that have no node."""


def limit_new_pods(owner: Any, missing: int, active: Sequence[Pod]) -> tuple[int, list[Action]]:
    """How many of the missing pods to make now, and what to tell people if others must wait."""
    waiting = sum(not pod.spec.node_name for pod in active)
    room = max(0, MOST_WAITING - waiting)
    if room >= missing or room >= MOST_AT_ONCE:
        return min(missing, MOST_AT_ONCE), []
    text = f"{waiting} pods wait for a node: {missing} more are made when some have one"
    return room, [RecordEvent(owner, "TooManyWaiting", text, warning=True)]
