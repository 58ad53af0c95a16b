"""PreEnqueue: which pods may enter the queue at all (docs/reference/03 §4)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

from kubesched.framework import ClusterEvent, Code, ExtensionPoint, Plugin, QueuedPodInfo, Status
from kubesched.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.util.errors import PluginError
from kubesched.util.logging import get_logger

__all__ = ["Gatekeeper"]

log = get_logger(__name__)

_SAMPLED_PERCENT = 10  # of the runs have the time of each plugin measured


class Gatekeeper:
    """Runs the PreEnqueue plugins of a pod's profile and notes on the pod which one refused."""

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
        self._random = random
        self._monotonic_ns = monotonic_ns

    def check(self, queued: QueuedPodInfo) -> bool:
        """Whether all plugins let the pod in; if not, it is gated from now on.

        The plugin that gates the pod already is asked first: the others matter only after it.
        """
        if self._monotonic_ns is None:
            return self._check(queued, None)
        started_ns = self._monotonic_ns()
        is_sampled = self._random.randrange(100) < _SAMPLED_PERCENT
        passed = self._check(queued, self._monotonic_ns if is_sampled else None)
        elapsed_ns = self._monotonic_ns() - started_ns
        # The reference reports success whatever the outcome.
        self._metrics.framework_extension_point_duration_seconds.labels(
            ExtensionPoint.PRE_ENQUEUE.label, Code.SUCCESS.label, queued.pod.spec.scheduler_name
        ).observe_ns(elapsed_ns)
        return passed

    def _check(self, queued: QueuedPodInfo, timer: Callable[[], int] | None) -> bool:
        plugins = self._plugins.get(queued.pod.spec.scheduler_name, ())
        gate = queued.gating_plugin
        if gate:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != gate))
        for plugin in plugins:
            if not self._ask(plugin, queued, timer).is_success:
                self._close(plugin.name, queued)
                return False
        queued.gating_plugin = ""
        return True

    def _ask(
        self, plugin: Plugin, queued: QueuedPodInfo, timer: Callable[[], int] | None
    ) -> Status:
        started_ns = timer() if timer is not None else 0
        pod = queued.pod
        try:
            status = plugin.pre_enqueue(pod)
            if not isinstance(status, Status):
                raise PluginError(f"the plugin returned {status!r}, which is not a Status")
        except (Exception, asyncio.CancelledError, SystemExit) as exc:
            log.exception(
                "Unexpected error running PreEnqueue plugin", exc, pod=pod, plugin=plugin.name
            )
            status = Status.failure(exc)
        else:
            if status.code is Code.ERROR:
                log.error(
                    "Unexpected error running PreEnqueue plugin",
                    exc=status.as_error(),
                    pod=pod,
                    plugin=plugin.name,
                )
            elif not status.is_success:
                log.detail(
                    4,
                    "Status after running PreEnqueue plugin",
                    pod=pod,
                    plugin=plugin.name,
                    status=status.message,
                )
        if timer is not None:
            self._metrics.plugin_execution_duration_seconds.labels(
                plugin.name, ExtensionPoint.PRE_ENQUEUE.label, status.code.label
            ).observe_ns(timer() - started_ns)
        return status

    def _close(self, name: str, queued: QueuedPodInfo) -> None:
        if name not in queued.unschedulable_plugins and name not in queued.pending_plugins:
            self._metrics.unschedulable_pods.labels(name, queued.pod.spec.scheduler_name).inc()
            queued.unschedulable_plugins |= {name}
        queued.gating_plugin = name
        queued.gating_events = self._events[name]
