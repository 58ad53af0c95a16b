"""Descriptions of pods in the queue, for users."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable

import msgspec

from kubesched.api import Pod
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import ActionType, ClusterEvent, QueuedPodInfo
from kubesched.scheduler.backend.queue.backoff import NO_BACKOFF_NS, Backoff
from kubesched.scheduler.backend.queue.journal import Transition
from kubesched.scheduler.backend.queue.queueing_hints import RegisteredHint

__all__ = ["Place", "PodPlace", "awaited_labels", "describe_pod"]


class Place(enum.StrEnum):
    """The places of a pod in the queue."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


class PodPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's place in the queue, and why it is there. Times are wall-clock nanoseconds."""

    pod: Pod
    place: Place
    since_ns: int
    attempts: int
    first_attempted_ns: int | None  # when it first entered the active queue
    rejected_by: tuple[str, ...] = ()  # sorted
    pending_on: tuple[str, ...] = ()  # the rejectors after which the pod skips its backoff
    gated_by: str = ""
    waits_for: tuple[str, ...] = ()  # labels of events that may requeue it
    deciders: dict[str, tuple[str, ...]] = {}  # by label, the plugins whose hints decide
    backing_off_until_ns: int | None = None  # the earliest flush that ends its backoff
    flushed_after_ns: int | None = None  # the first flush after this requeues it
    nominated_to: str = ""
    transitions: tuple[Transition, ...] = ()


_SINGLE_ACTIONS = tuple(action for action in ActionType if action.value.bit_count() == 1)


def awaited_labels(events: Iterable[ClusterEvent]) -> tuple[str, ...]:
    """Return the labels of the incoming events that registrations wait for, each once.

    A registration of several actions is spelled out; all updates together stay one label.
    """
    labels: dict[str, None] = {}
    for event in events:
        for action in _spelled_out(event.action):
            labels[ClusterEvent(event.resource, action).label] = None
    return tuple(labels)


def _spelled_out(action: ActionType) -> Iterable[ActionType]:
    covers_all_updates = action & ActionType.UPDATE == ActionType.UPDATE
    for single in _SINGLE_ACTIONS:
        if action & single and not (covers_all_updates and single & ActionType.UPDATE):
            yield single
    if covers_all_updates:
        yield ActionType.UPDATE


def _deciders(
    rejectors: Collection[str], hints: Iterable[RegisteredHint]
) -> dict[str, tuple[str, ...]]:
    """Return the plugins whose hints decide, by the label of each event the pod waits for."""
    found: dict[str, tuple[str, ...]] = {}
    for hint in hints:
        if hint.plugin in rejectors:
            for label in awaited_labels((hint.event,)):
                found[label] = tuple(dict.fromkeys((*found.get(label, ()), hint.plugin)))
    return found


def describe_pod(
    queued: QueuedPodInfo,
    place: Place,
    *,
    since_ns: int,
    now_ns: int,
    backoff: Backoff,
    max_in_unschedulable_ns: int,
    hints: Iterable[RegisteredHint],
    nominated_to: str,
    transitions: tuple[Transition, ...],
) -> PodPlace:
    """Describe a pod in the queue; `hints` are those of its profile."""
    deciders: dict[str, tuple[str, ...]] = {}
    backing_off_until_ns = flushed_after_ns = None
    if place is Place.GATED:
        deciders = dict.fromkeys(awaited_labels(queued.gating_events), (queued.gating_plugin,))
    elif place is Place.UNSCHEDULABLE:
        deciders = _deciders(queued.rejectors, hints)
    if place in (Place.GATED, Place.UNSCHEDULABLE):
        last_look_ns = max(queued.timestamp_ns, queued.flush_timestamp_ns)
        flushed_after_ns = last_look_ns + max_in_unschedulable_ns
    if place is not Place.IN_FLIGHT and place is not Place.ACTIVE:
        expiration_ns = backoff.expiration_ns(queued)
        if expiration_ns != NO_BACKOFF_NS and backoff.is_backing_off(queued, now_ns):
            backing_off_until_ns = expiration_ns + SECOND
    return PodPlace(
        pod=queued.pod,
        place=place,
        since_ns=since_ns,
        attempts=queued.attempts,
        first_attempted_ns=queued.initial_attempt_timestamp_ns,
        rejected_by=tuple(sorted(queued.rejectors)),
        pending_on=tuple(sorted(queued.pending_plugins)),
        gated_by=queued.gating_plugin,
        waits_for=tuple(deciders),
        deciders=deciders,
        backing_off_until_ns=backing_off_until_ns,
        flushed_after_ns=flushed_after_ns,
        nominated_to=nominated_to,
        transitions=transitions,
    )
