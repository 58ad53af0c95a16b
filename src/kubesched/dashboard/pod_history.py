"""The history of a pod: created, attempted, rejected, requeued by an event, placed."""

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
# Transitions that are left out, since a decision describes them.
_DESCRIBED_ELSEWHERE: Final = ("in flight", "gone", "done")
# The order of steps in the same millisecond.
_DECIDED: Final = 3
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
    """Return steps with a time in milliseconds, a kind, a text, and a node or a reason."""
    created = pod.metadata.creation_timestamp
    created_ms = parse_time(created) // _MILLISECOND if created else 0
    steps = [_creation(pod, created_ms)] if created else []
    # Earlier entries are about a deleted pod of the same name.
    earliest_ms = created_ms - 1000
    steps += [
        {**entry, "text": _TEXTS.get(entry["what"], entry["what"])}
        for entry in decisions
        if entry["at"] >= earliest_ms
    ]
    transitions = () if queue is None else queue.transitions(key)
    recent = (each for each in transitions if each.at_ns // _MILLISECOND >= earliest_ms)
    steps += [step for each in recent if (step := _queue_step(each)) is not None]
    if pod.spec.node_name and not any(step["what"] == "placed" for step in steps):
        steps.append(_placed_before(pod))
    if pod.status.start_time and pod.status.phase == "Running":
        steps.append(_start(pod.status.start_time, steps))
    return sorted(steps, key=lambda step: (step["at"], _ORDER.get(step["what"], _DECIDED)))


def _start(start_time: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the step in which the pod began to run; the clocks of nodes may be behind."""
    started_ms = parse_time(start_time) // _MILLISECOND
    last_ms = max((step["at"] for step in steps), default=started_ms)
    return {"at": max(started_ms, last_ms), "what": "running", "text": "runs"}


def _creation(pod: Pod, created_ms: int) -> dict[str, Any]:
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    text = f"created by {owner.kind} {owner.name}" if owner is not None else "created"
    return {"at": created_ms, "what": "created", "text": text}


def _queue_step(transition: Transition) -> dict[str, Any] | None:
    """Return a transition in the queue as a step; None if it is left out."""
    if transition.place in _DESCRIBED_ELSEWHERE:
        return None
    step: dict[str, Any] = {"at": transition.at_ns // _MILLISECOND, "what": "waits"}
    if transition.place == "gated":
        step["text"] = "held back by a gate"
    elif transition.cause == POD_ADDED:
        step["what"], step["text"] = "joined", "joined the queue"
    elif transition.cause in _BACKOFF_OVER:
        step["what"], step["text"] = "woken", "its backoff is over: ready to be tried again"
    elif transition.cause == ATTEMPT_FAILED:
        waits = "waits for a change" if transition.place == "unschedulable" else "backs off"
        step["text"] = waits
    elif transition.place == "unschedulable":
        step["text"] = f"waits on; {transition.cause} did not help"
    else:
        step["what"], step["text"] = "woken", "woken by"
        step["event"] = transition.cause
        if transition.place != "active":
            step["then"] = "and backs off first"
    return step


def _placed_before(pod: Pod) -> dict[str, Any]:
    """Return the placement of a pod that was bound before the log began."""
    times = [
        each.last_transition_time
        for each in pod.status.conditions
        if each.type == "PodScheduled" and each.status == "True" and each.last_transition_time
    ]
    at = times[0] if times else pod.status.start_time or pod.metadata.creation_timestamp
    at_ms = parse_time(at) // _MILLISECOND if at else 0
    return {"at": at_ms, "what": "placed", "text": "placed on", "node": pod.spec.node_name}
