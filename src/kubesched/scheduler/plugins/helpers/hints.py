"""Helpers for queueing hints: check the objects of an event and compare pods."""

from __future__ import annotations

from typing import Any, TypeVar

from kubesched.api import Pod
from kubesched.framework import QueueingHint

__all__ = ["expect", "expect_or_none", "is_placed", "queue_if", "same_pod"]

T = TypeVar("T")


def expect(kind: type[T], event_object: Any) -> T:
    """Return the object of an event, which must be of this kind.

    Raises:
        TypeError: it is of another kind; the queue then requeues the pod.
    """
    if not isinstance(event_object, kind):
        raise TypeError(f"expected {kind.__name__}, but got {type(event_object).__name__}")
    return event_object


def expect_or_none(kind: type[T], event_object: Any) -> T | None:
    """Return the object of an event like `expect`, or None if there is none."""
    return None if event_object is None else expect(kind, event_object)


def queue_if(may_help: bool) -> QueueingHint:
    """Return QUEUE if the event may make the pod schedulable, otherwise SKIP."""
    return QueueingHint.QUEUE if may_help else QueueingHint.SKIP


def same_pod(pod: Pod, other: Pod) -> bool:
    return pod.metadata.uid == other.metadata.uid


def is_placed(pod: Pod) -> bool:
    """Whether the pod occupies a node, or is nominated to one."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
