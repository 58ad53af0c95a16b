"""Queueing hints: the events that plugins registered, and whether an event requeues a pod.

docs/reference/03 §7, §9 and §10.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kubesched.api import Pod
from kubesched.errors import ConfigError
from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    ActionType,
    ClusterEvent,
    EventResource,
    ExtensionPoint,
    HintFunction,
    Plugin,
    QueuedPodInfo,
    QueueingHint,
    extension_points,
)

__all__ = [
    "EXTENDER",
    "HintAnswer",
    "HintTable",
    "Interest",
    "RegisteredHint",
    "Strategy",
    "ask_hint",
    "matching_hints",
    "register_hints",
    "worth_requeuing",
]

log = get_logger(__name__)

# The name of all extenders together as a rejector of a pod.
EXTENDER = "Extender"

_POINTS_THAT_REJECT = frozenset(
    {
        ExtensionPoint.PRE_ENQUEUE,
        ExtensionPoint.PRE_FILTER,
        ExtensionPoint.FILTER,
        ExtensionPoint.RESERVE,
        ExtensionPoint.PERMIT,
    }
)

# ResourceSlice and VolumeAttachment are absent in the reference too.
_ALL_EVENTS = tuple(
    ClusterEvent(resource, ActionType.ALL)
    for resource in (
        EventResource.POD,
        EventResource.NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_STORAGE_CAPACITY,
        EventResource.STORAGE_CLASS,
        EventResource.RESOURCE_CLAIM,
        EventResource.DEVICE_CLASS,
    )
)
_POD_GROUP = ClusterEvent(EventResource.POD_GROUP, ActionType.ALL)
_NODE_TAINT_UPDATE = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)


class RegisteredHint(NamedTuple):
    """An event that a plugin registered; without a hint, every such event requeues its pods."""

    event: ClusterEvent
    plugin: str
    hint: HintFunction | None = None


class HintAnswer(enum.StrEnum):
    """The result of a call of a hint; the values are those of the metric's label."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"
    ERROR = "Error"  # the hint failed, which counts as QUEUE


class Strategy(enum.Enum):
    """What to do with a waiting pod after an event."""

    SKIP = "Skip"
    AFTER_BACKOFF = "AfterBackoff"
    IMMEDIATELY = "Immediately"


# Called for every hint that was called, with its result and duration in nanoseconds.
HintObserver = Callable[[RegisteredHint, HintAnswer, int], None]


def register_hints(
    plugins: Iterable[Plugin],
    problems: list[str] | None = None,
    *,
    with_extenders: bool = False,
    with_pod_groups: bool = False,
) -> tuple[RegisteredHint, ...]:
    """Return the events that the plugins of a profile register.

    Only plugins that can reject a pod are called, at whatever points they are enabled. A profile
    without its registrations must not start: failures are added to `problems`, if it is given.

    Raises:
        ConfigError: a plugin failed, and `problems` is not given.
    """
    registered: list[RegisteredHint] = []
    for plugin in plugins:
        if not extension_points(plugin).isdisjoint(_POINTS_THAT_REJECT):
            try:
                registered += _registrations_of(plugin, with_pod_groups=with_pod_groups)
            except BaseException as exc:
                pass_on_interrupt(exc)
                # Any exception of a plugin ends the start of the scheduler, with one line for each
                # plugin.
                what = f"{type(exc).__name__}: {exc}"
                problem = f'events_to_register of plugin "{plugin.name}": {what}'
                if problems is None:
                    raise ConfigError(problem) from exc
                problems.append(problem)
    if with_extenders:
        registered += [RegisteredHint(event, EXTENDER) for event in _ALL_EVENTS]
    return tuple(registered)


def _registrations_of(plugin: Plugin, *, with_pod_groups: bool) -> list[RegisteredHint]:
    events = plugin.events_to_register()
    if events is None:
        every = (*_ALL_EVENTS, _POD_GROUP) if with_pod_groups else _ALL_EVENTS
        return [RegisteredHint(event, plugin.name) for event in every]
    registered = [RegisteredHint(event.event, plugin.name, event.hint) for event in events]
    node_actions = ActionType.NONE
    for interest in registered:
        if interest.event.resource == EventResource.NODE:
            node_actions |= interest.event.action
    # The reference adds this for every plugin that waits for new nodes: a node is often added
    # with a taint that is removed once the node is ready.
    if node_actions & ActionType.ADD and not node_actions & ActionType.UPDATE_NODE_TAINT:
        registered.append(RegisteredHint(_NODE_TAINT_UPDATE, plugin.name))
    return registered


def matching_hints(
    hints: Iterable[RegisteredHint], event: ClusterEvent
) -> tuple[RegisteredHint, ...]:
    """Return the registrations that match an incoming event, in their order."""
    return tuple(hint for hint in hints if hint.event.matches(event))


def ask_hint(registered: RegisteredHint, pod: Pod, old: Any, new: Any) -> HintAnswer:
    """Call the hint of one plugin; a failure is logged."""
    if registered.hint is None:
        return HintAnswer.QUEUE
    try:
        hint = registered.hint(pod, old, new)
    except BaseException as exc:
        pass_on_interrupt(exc)
        log.exception("QueueingHintFn returns error", exc, pod=pod, plugin=registered.plugin)
        return HintAnswer.ERROR
    return HintAnswer.SKIP if hint is QueueingHint.SKIP else HintAnswer.QUEUE


def worth_requeuing(
    queued: QueuedPodInfo,
    event: ClusterEvent,
    old: Any,
    new: Any,
    hints: Sequence[RegisteredHint] | None,
    *,
    monotonic_ns: Callable[[], int] | None = None,
    observe: HintObserver | None = None,
) -> Strategy:
    """Decide whether an event may make a rejected pod schedulable.

    `hints` are those of the pod's profile that match the event (`matching_hints`), or None if the
    profile is unknown. Plugins that did not reject the pod are not called. One hint that returns
    QUEUE is enough. If its plugin had returned Pending, the pod skips its backoff.
    """
    rejected_by, pending_by = queued.unschedulable_plugins, queued.pending_plugins
    if not rejected_by and not pending_by:
        return Strategy.AFTER_BACKOFF
    if event.is_wildcard:
        return _decide_on_wildcard(queued, new)
    if hints is None:
        log.error("No queueing hints of the pod's profile", pod=queued.pod)
        return Strategy.AFTER_BACKOFF
    strategy = Strategy.SKIP
    for registered in hints:
        plugin = registered.plugin
        is_pending = plugin in pending_by
        if not is_pending and plugin not in rejected_by:
            continue
        if observe is None or monotonic_ns is None:
            answer = ask_hint(registered, queued.pod_info.pod, old, new)
        else:
            started_ns = monotonic_ns()
            answer = ask_hint(registered, queued.pod_info.pod, old, new)
            observe(registered, answer, monotonic_ns() - started_ns)
        if answer is HintAnswer.SKIP:
            continue
        if is_pending:
            return Strategy.IMMEDIATELY
        if not pending_by:
            return Strategy.AFTER_BACKOFF
        # a plugin that returned Pending may still requeue it immediately
        strategy = Strategy.AFTER_BACKOFF
    return strategy


def _decide_on_wildcard(queued: QueuedPodInfo, new: Any) -> Strategy:
    """Decide on a wildcard event, which concerns either every pod or only one pod."""
    if new is None or (
        isinstance(new, Pod) and new.metadata.uid == queued.pod_info.pod.metadata.uid
    ):
        return Strategy.AFTER_BACKOFF
    return Strategy.SKIP


class Interest(NamedTuple):
    """The registrations that match an event."""

    hints: Mapping[str, tuple[RegisteredHint, ...]]  # profile -> registrations that match
    plugins: Mapping[str, tuple[str, ...]]  # profile -> their plugins, each once
    gates: tuple[str, ...]  # those plugins over all profiles, each once

    def __bool__(self) -> bool:
        return bool(self.gates)


class HintTable:
    """The registrations of all profiles, looked up by event."""

    def __init__(self, profiles: Mapping[str, Sequence[RegisteredHint]]) -> None:
        self._profiles = {name: tuple(hints) for name, hints in profiles.items()}
        self._interests: dict[tuple[str, int], Interest] = {}

    def events_of(self, plugin: str) -> tuple[ClusterEvent, ...]:
        """Return all events that a plugin registered, in any profile."""
        every = (hint for hints in self._profiles.values() for hint in hints)
        return tuple(dict.fromkeys(hint.event for hint in every if hint.plugin == plugin))

    def of_profile(self, profile: str) -> tuple[RegisteredHint, ...]:
        return self._profiles.get(profile, ())

    def interest_in(self, event: ClusterEvent) -> Interest:
        """Return the registrations that match the event; computed once per kind of event."""
        kind = (event.resource, int(event.action))
        interest = self._interests.get(kind)
        if interest is None:
            interest = self._interests[kind] = self._match(event)
        return interest

    def _match(self, event: ClusterEvent) -> Interest:
        hints = {name: matching_hints(all_, event) for name, all_ in self._profiles.items()}
        plugins = {
            name: tuple(dict.fromkeys(hint.plugin for hint in matching))
            for name, matching in hints.items()
        }
        gates = dict.fromkeys(plugin for names in plugins.values() for plugin in names)
        return Interest(hints, plugins, tuple(gates))
