"""A pod's position in the queue of a running scheduler, as plain data and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.api.time import format_time
from kubesched.scheduler.backend.queue import SchedulingQueue
from kubesched.scheduler.backend.queue.view import PodPlace

__all__ = ["place_of", "queue_lines", "queue_of"]

_SHOWN = 5
_PLACES = {
    "active": "ready to be tried",
    "backoff": "backing off after an attempt",
    "error backoff": "backing off after an error",
    "unschedulable": "waiting for an event that may help",
    "gated": "held back before scheduling",
    "in flight": "being tried or bound right now",
}


def place_of(place: PodPlace, line: Sequence[str]) -> dict[str, Any]:
    """Return a pod's position; `line` has the keys of the pods in the active queue, in order."""
    key = f"{place.pod.metadata.namespace}/{place.pod.metadata.name}"
    ahead = line.index(key) if key in line else len(line)
    next_try_ns = place.backing_off_until_ns or place.flushed_after_ns
    return {
        "place": str(place.place),
        "since": _time(place.since_ns),
        "attempts": place.attempts,
        "first_attempt": _time(place.first_attempted_ns),
        "next_try": _time(next_try_ns),
        "rejected_by": list(place.rejected_by),
        "gated_by": place.gated_by,
        "waits_for": [
            {"event": label, "hints_of": list(plugins)} for label, plugins in place.deciders.items()
        ],
        "nominated_to": place.nominated_to,
        "ahead": ahead,
        "next_in_line": list(line[: min(ahead, _SHOWN)]),
        "transitions": [
            {"at": _time(each.at_ns), "place": each.place, "cause": each.cause}
            for each in place.transitions
        ],
    }


def queue_of(queue: SchedulingQueue, now_ns: int) -> dict[str, Any]:
    """Return all pending pods by namespace and name, and the order of the active queue."""
    line = queue.line()
    position = {key: number for number, key in enumerate(line)}
    pods: dict[str, Any] = {}
    waiting, summary = queue.pending_pods()
    for pod in (*waiting, *queue.in_flight_pods):
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        place = queue.describe(key, now_ns)
        if place is not None:
            # A pod in the active queue has its own number; all others come after those.
            found = place_of(place, ())
            found["ahead"] = position.get(key, len(line))
            found["next_in_line"] = line[: min(found["ahead"], _SHOWN)]
            pods[key] = found
    return {"taken": _time(now_ns), "summary": summary, "pods": pods}


def _time(at_ns: int | None) -> str:
    return "" if not at_ns else format_time(at_ns)


def queue_lines(queue: Mapping[str, Any]) -> list[str]:
    """Return the position as sentences."""
    place = str(queue.get("place", ""))
    lines = [f"{_PLACES.get(place, place)} ({place}), since {queue.get('since') or 'unknown'}"]
    tried = queue.get("attempts", 0)
    first = f", first at {queue['first_attempt']}" if queue.get("first_attempt") else ""
    lines.append(f"attempts: {tried}{first}")
    if queue.get("gated_by"):
        lines.append(f"held back by {queue['gated_by']}")
    if queue.get("rejected_by"):
        lines.append(f"last rejected by {', '.join(queue['rejected_by'])}")
    lines += [
        f"waits for {each['event']} (hints of {', '.join(each['hints_of'])} decide)"
        for each in queue.get("waits_for", ())
    ]
    if queue.get("next_try"):
        lines.append(f"tried again at {queue['next_try']} at the latest")
    ahead = queue.get("ahead", 0)
    if ahead:
        names = ", ".join(queue.get("next_in_line", ()))
        lines.append(f"ahead of it: {ahead} ready, first {names}")
    if queue.get("nominated_to"):
        lines.append(f"nominated to {queue['nominated_to']}")
    lines += [
        f"{each['at']}  {each['place']} ({each['cause']})"
        for each in list(queue.get("transitions", ()))[-_SHOWN:]
    ]
    return lines
