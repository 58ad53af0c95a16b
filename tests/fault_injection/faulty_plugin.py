"""A plugin that misbehaves at random, from a seed: it raises, waits, or returns wrong values.

The kind `declines` does not misbehave: it makes pods wait for a storage class, and registers that
event.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from typing import Any

from kubesched.api import Pod, StorageClass
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    Plugin,
    QueueingHint,
    Status,
    Wait,
)
from tests.fault_injection.approving_plugin import NEEDS_TWO_APPROVALS, allow_later

__all__ = ["ACCEPTING_CLASS", "APPROVAL_CLASS", "HOLD_MODE", "faulty_plugin"]

# A plugin of the kind `declines` declines pods until this storage class exists.
ACCEPTING_CLASS = "open"
# The annotation with the storage class without which a pod is declined.
APPROVAL_CLASS = "example.com/needs"
# The annotation of a pod that holds its node without being bound, and then loses it: on Permit for
# a while (`permit`, `long permit`), or in PreBind until a storage class with its name exists
# (`fails`, `refused`), or until it is preempted, which the plugin does not admit (`deaf`). A pod
# of the mode `until changed` is refused on Permit until it has the label `changed`.
HOLD_MODE = "example.com/holds"
_HELD_ON_PERMIT_S = {"permit": 20, "long permit": 70}
_CHANGED_WITHIN_S = 6
_GOES_ON_S = 60
_LOOKS = 300
_STORAGE_CLASS_ADDED = ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD)
_POD_GONE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)


def faulty_plugin(
    kind: str,
    seed: int,
    is_injecting: Callable[[], bool],
    report: Callable[[str], None] = lambda _: None,
) -> type[Plugin]:
    """Make a plugin class that misbehaves in one way while faults are injected.

    `report` gets violations that only a plugin can see.
    """
    rng = random.Random(f"plugin/{seed}")
    gave_up: set[str] = set()  # uids of pods that held a node

    def is_faulty_now(wanted: str, share: float) -> bool:
        return kind == wanted and is_injecting() and rng.random() < share

    def answer_of(share: float) -> Any:
        """Return what a method answers: success in most cases."""
        if is_faulty_now("raises", share):
            raise RuntimeError("the faulty plugin raises")
        if is_faulty_now("forgets", share):
            return None
        if is_faulty_now("nonsense", share):
            return rng.choice(["yes", 5, (), [SUCCESS, SUCCESS], Status])
        return SUCCESS

    class Faulty(Plugin):
        name = "Faulty"

        def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
            super().__init__(args, handle)
            self._handle = handle
            self._classes = None if handle is None else handle.lister(StorageClass)
            self._pods = None if handle is None else handle.lister(Pod)
            # Uids of pods that the plugin has rejected since their last Reserve.
            self.refused: set[str] = set()

        def events_to_register(self) -> Sequence[ClusterEventWithHint] | None:
            """Register one event for declined pods; it may come during their attempt."""
            if kind != "declines":
                return None
            return (
                ClusterEventWithHint(_STORAGE_CLASS_ADDED),
                ClusterEventWithHint(_POD_GONE, self._is_helped_by_end),
            )

        def _is_helped_by_end(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
            """Return False; the hint must not be called about room that the pod itself released."""
            is_own = old is not None and old.metadata.uid == pod.metadata.uid
            # Without a node the event is about an ended nomination, which may help the pod.
            if is_own and old.spec.node_name and self._is_there(pod):
                report(f"{pod.metadata.name} is asked whether its own end helps it")
            return QueueingHint.SKIP

        def _declines(self, share: float) -> bool:
            if kind != "declines" or self._classes is None or rng.random() > share:
                return False
            return self._classes.get(ACCEPTING_CLASS) is None

        def _lacks_approval(self, pod: Pod) -> bool:
            needed = pod.metadata.annotations.get(APPROVAL_CLASS)
            return bool(needed) and self._classes is not None and self._classes.get(needed) is None

        def _is_there(self, pod: Pod) -> bool:
            assert self._pods is not None
            current = self._pods.get(pod.metadata.name, pod.metadata.namespace)
            return (
                current is not None
                and current.metadata.uid == pod.metadata.uid
                and current.metadata.deletion_timestamp is None
            )

        async def _hold(self, pod: Pod, how: str) -> Status:
            assert self._classes is not None
            if how == "deaf":
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(_GOES_ON_S)
                return SUCCESS
            for _ in range(_LOOKS):
                await asyncio.sleep(0.25)
                if self._classes.get(pod.metadata.name) is not None or not self._is_there(pod):
                    break
            if not self._is_there(pod):
                await asyncio.sleep(_GOES_ON_S)  # the plugin ignores the deletion
            if how == "fails":
                return Status.failure("it was held in vain")
            return Status.unschedulable("it was held in vain")

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            if pod.metadata.uid in gave_up:
                return Status.unschedulable("it had its chance")
            answer: Status = answer_of(0.02)
            return answer

        def _recorded_answer(self, pod: Pod, share: float) -> Any:
            """Return an answer, and record the pod unless the answer is success."""
            answer = None
            try:
                answer = answer_of(share)
                return answer
            finally:
                if answer is not SUCCESS:
                    self.refused.add(pod.metadata.uid)

        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            self.refused.discard(pod.metadata.uid)
            answer: Status = self._recorded_answer(pod, 0.05)
            return answer

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
            if self._lacks_approval(pod):
                return Wait(5 * SECOND)
            if NEEDS_TWO_APPROVALS in pod.metadata.annotations and self._handle is not None:
                return allow_later(self._handle, self.name, pod)
            held_s = _HELD_ON_PERMIT_S.get(pod.metadata.annotations.get(HOLD_MODE, ""), 0)
            if held_s:
                return Wait(held_s * SECOND)
            if _lacks_change(pod):
                return Wait(_CHANGED_WITHIN_S * SECOND)
            if is_faulty_now("waits", 0.3) or self._declines(0.15):
                return Wait(rng.randint(1, 20) * SECOND)
            answer: Status | Wait = self._recorded_answer(pod, 0.05)
            return answer

        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            how = pod.metadata.annotations.get(HOLD_MODE)
            if how and how != "until changed":
                if how != "deaf":
                    self.refused.add(pod.metadata.uid)
                return await self._hold(pod, how)
            if self._declines(0.3):
                self.refused.add(pod.metadata.uid)
                await asyncio.sleep(rng.choice([0.5, 5, 30]))
                return Status.unschedulable("not yet")
            if is_faulty_now("slow", 0.3):
                await asyncio.sleep(rng.choice([0.5, 5, 30]))
            answer: Status = self._recorded_answer(pod, 0.1)
            return answer

        async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            answer_of(0.1)

        def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            if HOLD_MODE in pod.metadata.annotations and not _lacks_change(pod):
                gave_up.add(pod.metadata.uid)
            answer_of(0.1)

    return Faulty


def _lacks_change(pod: Pod) -> bool:
    metadata = pod.metadata
    return metadata.annotations.get(HOLD_MODE) == "until changed" and (
        "changed" not in metadata.labels
    )
