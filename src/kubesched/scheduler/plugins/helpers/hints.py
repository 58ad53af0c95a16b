"""What queueing hints share: checked arguments, and questions about the pod of an event."""

from __future__ import annotations

from typing import Any, TypeVar

from kubesched.api import Pod
from kubesched.framework import QueueingHint

__all__ = ["expect", "expect_or_none", "is_placed", "queue_if", "same_pod"]

T = TypeVar("T")


def expect(kind: type[T], given: Any) -> T:
    """The object of an event, which must be there.

    Raises:
        TypeError: it is of another kind; the queue takes an exception for "try again".
    """
    if not isinstance(given, kind):
        raise TypeError(f"expected {kind.__name__}, but got {type(given).__name__}")
    return given


def expect_or_none(kind: type[T], given: Any) -> T | None:
    """As `expect`, for the side of an event that may be missing."""
    return None if given is None else expect(kind, given)


def queue_if(worth_a_try: bool) -> QueueingHint:
    return QueueingHint.QUEUE if worth_a_try else QueueingHint.SKIP


def same_pod(pod: Pod, other: Pod) -> bool:
    return pod.metadata.uid == other.metadata.uid


def is_placed(pod: Pod) -> bool:
    """Whether the pod takes room on a node, or is about to."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
