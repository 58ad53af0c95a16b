"""The story of a pod in order: created, tried, why not, woken by which event, placed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubesched.api import Pod
from kubesched.api.time import parse_time
from kubesched.scheduler.backend.queue import SchedulingQueue
from kubesched.scheduler.backend.queue.journal import Transition
from kubesched.scheduler.backend.queue.scheduling_queue import (
    ATTEMPT_FAILED,
    BACKOFF_COMPLETE,
    POD_ADDED,
    POPPED_FROM_BACKOFF,
)

__all__ = ["pod_history"]

_MILLISECOND: Final = 1_000_000
_BACKOFF_OVER: Final = (BACKOFF_COMPLETE, POPPED_FROM_BACKOFF)
# Moves that a decision beside them tells better.
_SAID_ELSEWHERE: Final = ("in flight", "gone", "done")
# What comes first of steps in one millisecond.
_TRIED: Final = 3
_ORDER: Final = {"created": 0, "joined": 1, "woken": 2, "waits": 4, "running": 5}
_TEXTS: Final = {
    "placed": "placed on",
    "unschedulable": "tried, no node fits",
    "failed": "tried, and the attempt failed",
    "nominated": "room is made on",
    "preempted": "had to go from",
}


def pod_history(
    pod: Pod, decisions: Iterable[dict[str, Any]], queue: SchedulingQueue | None, key: str
) -> list[dict[str, Any]]:
    """Steps with a time in milliseconds, what happened, a text, and a node or a reason."""
    steps: list[dict[str, Any]] = []
    created = pod.metadata.creation_timestamp
    created_ms = parse_time(created) // _MILLISECOND if created else 0
    if created:
        owner = next((each for each in pod.metadata.owner_references if each.controller), None)
        by = f"created by {owner.kind} {owner.name}" if owner is not None else "created"
        steps.append({"at": created_ms, "what": "created", "text": by})
    for entry in decisions:
        # A pod of the same name may have been here before.
        if entry["at"] + 1000 < created_ms:
            continue
        text = _TEXTS.get(entry["what"], entry["what"])
        steps.append({**entry, "text": text})
    moves = () if queue is None else queue.story(key)
    recent = (each for each in moves if each.at_ns // _MILLISECOND + 1000 >= created_ms)
    steps += [told for move in recent if (told := _told(move)) is not None]
    if pod.spec.node_name and not any(step["what"] == "placed" for step in steps):
        steps.append(_placed_before(pod))
    if pod.status.start_time and pod.status.phase == "Running":
        started_ms = parse_time(pod.status.start_time) // _MILLISECOND
        last = max((step["at"] for step in steps), default=started_ms)
        steps.append({"at": max(started_ms, last), "what": "running", "text": "runs"})
    return sorted(steps, key=lambda step: (step["at"], _ORDER.get(step["what"], _TRIED)))


def _told(move: Transition) -> dict[str, Any] | None:
    """A move in the queue as a step, or None if it goes without saying."""
    if move.place in _SAID_ELSEWHERE:
        return None
    step: dict[str, Any] = {"at": move.at_ns // _MILLISECOND, "what": "waits"}
    if move.place == "gated":
        step["text"] = "held back by a gate"
    elif move.cause == POD_ADDED:
        step["what"], step["text"] = "joined", "joined the queue"
    elif move.cause in _BACKOFF_OVER:
        step["what"], step["text"] = "woken", "its backoff is over: ready to be tried again"
    elif move.cause == ATTEMPT_FAILED:
        waits = "waits for a change" if move.place == "unschedulable" else "backs off"
        step["text"] = waits
    elif move.place == "unschedulable":
        step["text"] = f"waits on; {move.cause} did not help"
    else:
        step["what"], step["text"] = "woken", "woken by"
        step["event"] = move.cause
        if move.place != "active":
            step["then"] = "and backs off first"
    return step


def _placed_before(pod: Pod) -> dict[str, Any]:
    """The placement of a pod that had its node when it was first seen."""
    times = [
        each.last_transition_time
        for each in pod.status.conditions
        if each.type == "PodScheduled" and each.status == "True" and each.last_transition_time
    ]
    at = times[0] if times else pod.status.start_time or pod.metadata.creation_timestamp
    at_ms = parse_time(at) // _MILLISECOND if at else 0
    return {"at": at_ms, "what": "placed", "text": "placed on", "node": pod.spec.node_name}
