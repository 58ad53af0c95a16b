"""PreEnqueue: decides whether a pod may enter the active queue (docs/reference/03 §4)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubesched.api import Pod
from kubesched.foundation.metrics.instruments import HistogramMetric, KeptChildren
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    SUCCESS,
    ClusterEvent,
    Code,
    ExtensionPoint,
    Plugin,
    QueuedPodInfo,
    Status,
)
from kubesched.framework.wrong_answer import is_sound, wrong_answer

__all__ = ["Gatekeeper"]

log = get_logger(__name__)

_UNEXPECTED = "Unexpected error running PreEnqueue plugin"
_SAMPLED = 0.1  # the share of runs in which each plugin is timed


class Gatekeeper:
    """Runs the PreEnqueue plugins of a pod's profile; stores the rejecting one on the pod."""

    def __init__(
        self,
        plugins: Mapping[str, Sequence[Plugin]],
        events_of: Callable[[str], tuple[ClusterEvent, ...]],
        metrics: SchedulerMetrics,
        random: random.Random,
        monotonic_ns: Callable[[], int] | None,
    ) -> None:
        self._plugins = {profile: tuple(enabled) for profile, enabled in plugins.items()}
        self._events = {
            plugin.name: events_of(plugin.name)
            for enabled in self._plugins.values()
            for plugin in enabled
        }
        self._metrics = metrics
        durations = metrics.framework_extension_point_duration_seconds
        self._durations: KeptChildren[str, HistogramMetric] = KeptChildren(
            lambda profile: durations.labels(
                ExtensionPoint.PRE_ENQUEUE.label, Code.SUCCESS.label, profile
            )
        )
        self._random = random
        self._monotonic_ns = monotonic_ns

    def check(self, queued: QueuedPodInfo) -> bool:
        """Whether all plugins accept the pod; if not, it is gated.

        The plugin that gates the pod already is called first: the others matter only after it.
        """
        if self._monotonic_ns is None:
            return self._check(queued, None)
        started_ns = self._monotonic_ns()
        is_sampled = self._random.random() < _SAMPLED
        passed = self._check(queued, self._monotonic_ns if is_sampled else None)
        elapsed_ns = self._monotonic_ns() - started_ns
        # The reference reports success whatever the outcome.
        self._durations[queued.pod.spec.scheduler_name].observe_ns(elapsed_ns)
        return passed

    def _check(self, queued: QueuedPodInfo, timer: Callable[[], int] | None) -> bool:
        pod = queued.pod
        plugins = self._plugins.get(pod.spec.scheduler_name, ())
        gate = queued.gating_plugin
        if gate:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != gate))
        for plugin in plugins:
            try:
                answer = (
                    plugin.pre_enqueue(pod) if timer is None else self._time(plugin, pod, timer)
                )
            except BaseException as exc:
                pass_on_interrupt(exc)
                log.exception(_UNEXPECTED, exc, pod=pod, plugin=plugin.name)
                self._close(plugin.name, queued)
                return False
            if answer is not SUCCESS and not _passes(plugin, pod, answer):
                self._close(plugin.name, queued)
                return False
        queued.gating_plugin = ""
        return True

    def _time(self, plugin: Plugin, pod: Pod, timer: Callable[[], int]) -> Status:
        started_ns, code = timer(), Code.ERROR
        try:
            status = plugin.pre_enqueue(pod)
            code = status.code if is_sound(status) else Code.ERROR
            return status
        finally:
            self._metrics.plugin_execution_duration_seconds.labels(
                plugin.name, ExtensionPoint.PRE_ENQUEUE.label, code.label
            ).observe_ns(timer() - started_ns)

    def _close(self, name: str, queued: QueuedPodInfo) -> None:
        if name not in queued.unschedulable_plugins and name not in queued.pending_plugins:
            self._metrics.unschedulable_pods.labels(name, queued.pod.spec.scheduler_name).inc()
            queued.unschedulable_plugins |= {name}
        queued.gating_plugin = name
        queued.gating_events = self._events[name]


def _passes(plugin: Plugin, pod: Pod, answer: Any) -> bool:
    """Whether an answer is success; any other answer is logged."""
    if not is_sound(answer):
        error = wrong_answer(answer, "a Status")
        log.exception(_UNEXPECTED, error, pod=pod, plugin=plugin.name)
        return False
    if answer.code is Code.ERROR:
        log.error(_UNEXPECTED, exc=answer.as_error(), pod=pod, plugin=plugin.name)
    elif not answer.is_success:
        message = "Status after running PreEnqueue plugin"
        log.detail(4, message, pod=pod, plugin=plugin.name, status=answer.message)
    return answer.is_success
