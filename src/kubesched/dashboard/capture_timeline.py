"""Timelines of captures: several captures in sequence, or the past of a single one.

A single capture has the times when its nodes and pods were created and when its pods were
scheduled. Its timeline does not contain objects that were deleted before it was taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from kubesched.api import Node, Pod, PodStatus
from kubesched.api.base import ApiObject
from kubesched.api.time import parse_time
from kubesched.dashboard.timeline import Key, Timeline, TimelineChange, Timelines, key_of
from kubesched.explain.clusters.capture import Capture
from kubesched.scheduler.config.load import configuration_from_builtins

__all__ = ["timeline_of_captures", "timeline_of_objects"]

_MILLISECOND: Final = 1_000_000
_READY: Final = "Ready"
# The node controller adds them when the node stops being ready.
_FAILURE_TAINTS: Final = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
)


def timeline_of_captures(captures: Sequence[Capture]) -> Timelines:
    """Build a timeline from captures, ordered by the time when they were taken."""
    ordered = sorted(captures, key=lambda capture: _milliseconds(capture.taken))
    newest = ordered[-1]
    configuration = None
    if newest.configuration is not None:
        configuration = configuration_from_builtins(newest.configuration)
    if len(ordered) == 1:
        taken = _milliseconds(newest.taken)
        run = Timeline(
            "capture", _past_of(newest.objects, taken), end=taken, configuration=configuration
        )
        return Timelines([run])
    moments = [_milliseconds(each.taken) for each in ordered]
    changes = list(_differences(ordered, moments))
    return Timelines([Timeline("captures", changes, moments=moments, configuration=configuration)])


def timeline_of_objects(objects: Sequence[ApiObject], now: int) -> Timelines:
    """Build a timeline from the timestamps of dumped objects; `now` is in milliseconds."""
    return Timelines([Timeline("files", _past_of(objects, now), end=now)])


def _differences(captures: Sequence[Capture], moments: Sequence[int]) -> Iterator[TimelineChange]:
    previous: dict[Key, ApiObject] = {}
    for capture, at in zip(captures, moments, strict=True):
        present = {key_of(each): each for each in capture.objects}
        for key, gone in previous.items():
            if key not in present:
                yield TimelineChange(at, gone, None)
        for key, each in present.items():
            before = previous.get(key)
            if before != each:
                yield TimelineChange(at, before, each)
        previous = present


def _past_of(objects: Sequence[ApiObject], taken: int) -> Iterator[TimelineChange]:
    times = [_created(each) for each in objects if isinstance(each, Node | Pod)]
    begin = min((at for at in times if at), default=taken)
    for each in objects:
        created = min(_created(each) or begin, taken)
        if not isinstance(each, Pod):
            if isinstance(each, Node):
                yield from _past_of_node(each, created, taken)
                continue
            # Objects of other kinds exist from the beginning, since explanations need them.
            yield TimelineChange(begin, None, each)
            continue
        placed = _placed(each)
        if not each.spec.node_name or placed is None:
            yield TimelineChange(created, None, each)
            continue
        before = replace(
            each, spec=replace(each.spec, node_name=""), status=PodStatus(phase="Pending")
        )
        yield TimelineChange(created, None, before)
        yield TimelineChange(min(max(placed, created), taken), before, each)


def _past_of_node(node: Node, created: int, taken: int) -> Iterator[TimelineChange]:
    """Yield a node as healthy until the time at which its condition Ready reports the failure."""
    failed = _failed(node)
    if failed is None or failed <= created:
        yield TimelineChange(created, None, node)
        return
    healthy = replace(
        node,
        spec=replace(
            node.spec,
            taints=tuple(each for each in node.spec.taints if each.key not in _FAILURE_TAINTS),
        ),
        status=replace(
            node.status,
            conditions=tuple(
                replace(each, status="True") if each.type == _READY else each
                for each in node.status.conditions
            ),
        ),
    )
    yield TimelineChange(created, None, healthy)
    yield TimelineChange(min(failed, taken), healthy, node)


def _failed(node: Node) -> int | None:
    """Return when a node stopped being ready; None if it is ready or the time is unknown."""
    for condition in node.status.conditions:
        since = condition.last_transition_time
        if condition.type == _READY and condition.status != "True" and since:
            return _milliseconds(since)
    return None


def _placed(pod: Pod) -> int | None:
    """Return when a pod was scheduled, if its status has the time."""
    for condition in pod.status.conditions:
        since = condition.last_transition_time
        if condition.type == "PodScheduled" and condition.status == "True" and since:
            return _milliseconds(since)
    return _milliseconds(pod.status.start_time) if pod.status.start_time else None


def _created(each: Any) -> int:
    created = each.metadata.creation_timestamp
    return _milliseconds(created) if created else 0


def _milliseconds(text: str) -> int:
    return parse_time(text) // _MILLISECOND if text else 0
