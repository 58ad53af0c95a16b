"""The waiting pods: their reasons, and their places in the scheduling queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from kubesched.api import Pod, PodGroup
from kubesched.api.pod_facts import pod_key
from kubesched.dashboard.cluster_view import PageView
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.pod_group_rows import group_rows
from kubesched.dashboard.rows import pod_row, waiting_reason
from kubesched.scheduler.backend.queue import SchedulingQueue
from kubesched.scheduler.backend.queue.view import PodPlace

__all__ = ["place_row", "queue_view"]

_PODS_SHOWN: Final = 300
_REASONS_SHOWN: Final = 20
_GROUPS_SHOWN: Final = 50
_MILLISECOND: Final = 1_000_000
_UNTRIED: Final = "not tried yet"


def queue_view(
    view: PageView,
    decisions: DecisionLog,
    queue: SchedulingQueue | None,
    now_ns: int,
    groups: Iterable[PodGroup] = (),
) -> dict[str, Any]:
    """Return the waiting pods by reason, with their places if there is a queue."""
    waiting = view.waiting()
    reasons: dict[str, list[Pod]] = {}
    for pod in waiting:
        reasons.setdefault(decisions.main_reason(pod) or _UNTRIED, []).append(pod)
    ordered = sorted(reasons.items(), key=lambda item: -len(item[1]))
    answer: dict[str, Any] = {
        "total": len(waiting),
        "shown": min(len(waiting), _PODS_SHOWN),
        "reasons": [
            {
                "reason": text,
                "message": waiting_reason(pods[0]),
                "count": len(pods),
                "example": pod_key(pods[0]),
            }
            for text, pods in ordered[:_REASONS_SHOWN]
        ],
        "pods": [],
    }
    if waiting_groups := _waiting_groups(view, groups):
        answer["groups"] = waiting_groups
    if queue is not None:
        answer["lengths"] = queue.lengths()
    blamed: Counter[str] = Counter()
    for pod in waiting[:_PODS_SHOWN]:
        row = pod_row(pod)
        place = None if queue is None else queue.describe(pod_key(pod), now_ns)
        if place is not None:
            row["queue"] = place_row(place)
            blamed.update(place.rejected_by)
        answer["pods"].append(row)
    answer["blamed"] = [{"plugin": name, "count": count} for name, count in blamed.most_common()]
    return answer


def _waiting_groups(view: PageView, groups: Iterable[PodGroup]) -> list[dict[str, Any]]:
    """Return the groups with pods that wait; those that never had enough pods placed first."""
    rows = [each for each in group_rows(groups, view.pods()) if each["placed"] < each["pods"]]
    rows.sort(key=lambda each: each["placed"] >= each["needed"])
    return rows[:_GROUPS_SHOWN]


def place_row(place: PodPlace) -> dict[str, Any]:
    """Return a pod's place in the queue."""
    row: dict[str, Any] = {
        "place": str(place.place),
        "since": place.since_ns // _MILLISECOND,
        "attempts": place.attempts,
        "rejectedBy": list(place.rejected_by),
        "waitsFor": list(place.waits_for),
    }
    if place.gated_by:
        row["gatedBy"] = place.gated_by
    if place.nominated_to:
        row["nominatedTo"] = place.nominated_to
    if place.backing_off_until_ns is not None:
        row["until"] = place.backing_off_until_ns // _MILLISECOND
    if place.flushed_after_ns is not None:
        row["flushed"] = place.flushed_after_ns // _MILLISECOND
    return row
