"""Rules about the queue: PreEnqueue, events and hints, sorting."""

from __future__ import annotations

import msgspec

from kubesched.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueuedPodInfo,
    QueueingHint,
    overrides,
)
from kubesched.testing.checks.trial import Trial
from kubesched.testing.objects.random_changes import KINDS, random_change

__all__ = ["check_queueing"]

_EVENTS = "events_to_register is well-formed"
_INCOMING_ONLY = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD)
_NODE_ACTIONS = (
    ActionType.UPDATE_NODE_ALLOCATABLE
    | ActionType.UPDATE_NODE_LABEL
    | ActionType.UPDATE_NODE_TAINT
    | ActionType.UPDATE_NODE_CONDITION
    | ActionType.UPDATE_NODE_ANNOTATION
    | ActionType.UPDATE_NODE_DECLARED_FEATURE
)
_POD_ACTIONS = ActionType.UPDATE & ~_NODE_ACTIONS
_encoder = msgspec.json.Encoder(order="deterministic")


def check_queueing(trial: Trial) -> None:
    _check_pre_enqueue(trial)
    _check_sort_key(trial)
    _check_events(trial)


def _check_pre_enqueue(trial: Trial) -> None:
    with trial.calling("pre_enqueue"):
        status = trial.plugin.pre_enqueue(trial.pod)
    trial.check_status("pre_enqueue", status)


def _check_sort_key(trial: Trial) -> None:
    if not overrides(trial.plugin, "sort_key"):
        return
    queued = [
        QueuedPodInfo(pod, now_ns) for now_ns, pod in enumerate((trial.pod, *trial.cluster.pods))
    ]
    with trial.calling("sort_key"):
        keys = [trial.plugin.sort_key(info) for info in queued]
        sorted(keys)
    if keys[0] != trial.plugin.sort_key(queued[0]):
        trial.fail("a sort key is stable", f"sort_key returned {keys[0]!r} and then another value")


def _check_events(trial: Trial) -> None:
    with trial.calling("events_to_register"):
        registered = trial.plugin.events_to_register()
    if registered is None:
        return
    if isinstance(registered, str | bytes) or not hasattr(registered, "__iter__"):
        trial.fail(_EVENTS, f"answered {registered!r}, which is not a list of events")
    for entry in registered:
        if not isinstance(entry, ClusterEventWithHint):
            trial.fail(_EVENTS, f"{entry!r} is not a ClusterEventWithHint")
        problem = _event_problem(entry.event)
        if problem:
            trial.fail(_EVENTS, f"{entry.event.label}: {problem}")
        if entry.hint is not None:
            _check_hint(trial, entry)


def _event_problem(event: ClusterEvent) -> str:
    resource, action = event.resource, event.action
    if not action:
        return "no action is named"
    if resource in _INCOMING_ONLY:
        return f"register {EventResource.POD!r} instead"
    if resource == EventResource.WILDCARD or resource in KINDS:
        # An event with all updates stands for every update of the kind.
        fine = action & ActionType.UPDATE if action & ActionType.UPDATE != ActionType.UPDATE else 0
        if fine & _NODE_ACTIONS and resource not in (EventResource.NODE, EventResource.WILDCARD):
            return f"{resource} has no such update"
        if fine & _POD_ACTIONS and resource not in (EventResource.POD, EventResource.WILDCARD):
            return f"{resource} has no such update"
        return ""
    # Other kinds are named as <plural>.<version>.<group>.
    if len([part for part in resource.split(".") if part]) < 3:
        return f"{resource!r} is no kind of object"
    return ""


def _check_hint(trial: Trial, entry: ClusterEventWithHint) -> None:
    hint, event = entry.hint, entry.event
    assert hint is not None
    if event.resource not in KINDS:
        return
    for _ in range(3):
        old, new = random_change(trial.rng, trial.cluster, trial.pod, event)
        with trial.calling(f"hint for {event.label}"):
            answer = hint(trial.pod, old, new)
        if not isinstance(answer, QueueingHint):
            trial.fail("a hint answers with a QueueingHint", f"{event.label}: {answer!r}")
