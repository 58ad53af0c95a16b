"""A limit on the pods that a controller creates for one owner.

`replicas: 2147483647` must not fill the memory of the process. The number of nodes limits the
pods that have a node, so the limit counts the pods that have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kubesched.api import Pod
from kubesched.cluster.controllers.plans import Action, RecordEvent

__all__ = ["MOST_AT_ONCE", "MOST_WAITING", "limit_new_pods"]

# Pods that one plan creates. The next plan follows when these exist.
MOST_AT_ONCE: Final = 500
# Pods of one owner that have no node.
MOST_WAITING: Final = 10_000


def limit_new_pods(owner: Any, missing: int, active: Sequence[Pod]) -> tuple[int, list[Action]]:
    """Return how many missing pods to create now, and an event if others must wait."""
    waiting = sum(not pod.spec.node_name for pod in active)
    room = max(0, MOST_WAITING - waiting)
    if room >= missing or room >= MOST_AT_ONCE:
        return min(missing, MOST_AT_ONCE), []
    text = f"{waiting} pods wait for a node: {missing} more are made when some have one"
    return room, [RecordEvent(owner, "TooManyWaiting", text, warning=True)]
