"""A flight recorder: the last decisions about pods, as far as a watch shows them.

Read off the pods themselves, so it costs the scheduler nothing and works on any cluster: a pod
that got a node was placed, one whose condition says why not was tried, one that is marked as a
preemption's target had to go.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from kubesched.api import Pod

__all__ = ["DecisionLog"]

_LENGTH = 10_000
_STORIES = 20_000
_STORY_LENGTH = 30
_PREEMPTED = "PreemptionByScheduler"


class DecisionLog:
    """The last ten thousand decisions, numbered, and the story of each pod that still exists."""

    def __init__(self, length: int = _LENGTH) -> None:
        self._entries: deque[dict[str, Any]] = deque(maxlen=length)
        self._stories: dict[str, deque[dict[str, Any]]] = {}
        self.last = 0
        self.placed = 0
        self.failed = 0
        self.preempted = 0

    def note(self, old: Pod | None, new: Pod, now_ns: int) -> None:
        """Compare two versions of a pod and note what was decided in between."""
        if old is not None and old.metadata.uid != new.metadata.uid:
            old = None
        if old is None:
            self._tell(new, "created", now_ns)
        was = old.spec.node_name if old is not None else ""
        if new.spec.node_name and not was:
            # A pod that is placed when it is first seen was placed before anybody looked.
            if old is not None:
                self.placed += 1
                self._add(new, "placed", now_ns, node=new.spec.node_name)
            return
        message = _unschedulable(new)
        if message and message != (_unschedulable(old) if old is not None else ""):
            self.failed += 1
            self._add(new, "unschedulable", now_ns, reason=message)
        nominated = new.status.nominated_node_name
        if nominated and (old is None or old.status.nominated_node_name != nominated):
            self._add(new, "nominated", now_ns, node=nominated)
        if _is_preempted(new) and (old is None or not _is_preempted(old)):
            self.preempted += 1
            self._add(new, "preempted", now_ns, node=new.spec.node_name)

    def note_removed(self, pod: Pod, now_ns: int) -> None:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._tell(pod, "removed", now_ns)
        self._stories.pop(key, None)

    def _add(self, pod: Pod, what: str, now_ns: int, **more: Any) -> None:
        self.last += 1
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        entry = {"number": self.last, "at": now_ns // 1_000_000, "pod": key, "what": what, **more}
        self._entries.append(entry)
        self._story(key).append(entry)

    def _tell(self, pod: Pod, what: str, now_ns: int) -> None:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._story(key).append({"at": now_ns // 1_000_000, "what": what})

    def _story(self, key: str) -> deque[dict[str, Any]]:
        story = self._stories.get(key)
        if story is None:
            if len(self._stories) >= _STORIES:
                self._stories.pop(next(iter(self._stories)))
            story = self._stories[key] = deque(maxlen=_STORY_LENGTH)
        return story

    def since(self, number: int, most: int) -> list[dict[str, Any]]:
        """Decisions after a number, the newest of them if there are more than wanted."""
        found: list[dict[str, Any]] = []
        for entry in reversed(self._entries):
            if entry["number"] <= number or len(found) >= most:
                break
            found.append(entry)
        return found[::-1]

    def before(self, number: int, most: int) -> list[dict[str, Any]]:
        """Decisions up to a number, oldest first."""
        found = [entry for entry in self._entries if entry["number"] <= number]
        return found[-most:]

    def story(self, key: str) -> list[dict[str, Any]]:
        return list(self._stories.get(key, ()))


def _unschedulable(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""


def _is_preempted(pod: Pod) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.reason == _PREEMPTED
        for each in pod.status.conditions
    )
