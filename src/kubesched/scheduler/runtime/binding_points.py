"""The extension points after a node was chosen: Reserve to PostBind (docs/reference/04 §8.3)."""

from __future__ import annotations

import asyncio
from itertools import groupby

from kubesched.api import Pod
from kubesched.errors import PluginError
from kubesched.foundation.util.clock import MINUTE
from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    ExtensionPoint,
    Plugin,
    Status,
    Wait,
)
from kubesched.scheduler.runtime.plugin_calls import (
    THROWN,
    as_permit_answer,
    as_status,
    failure_of,
    is_being_ended,
)
from kubesched.scheduler.runtime.plugin_set import ProfilePlugins
from kubesched.scheduler.runtime.point_metrics import PointMetrics, timing_of
from kubesched.scheduler.runtime.services import Services
from kubesched.scheduler.runtime.waiting_pods import PodInPreBindEntry, WaitingPodEntry

__all__ = ["BindingPoints"]

log = get_logger(__name__)

MAX_PERMIT_TIMEOUT_NS = 15 * MINUTE
_WAITING = "one or more plugins asked to wait and no plugin rejected pod"


class BindingPoints:
    """Runs Reserve, Permit, PreBind, Bind and PostBind of one profile.

    Every method returns a Status, also for a failure: the caller undoes what was done before.
    """

    def __init__(self, plugins: ProfilePlugins, services: Services, metrics: PointMetrics) -> None:
        self._services = services
        self._metrics = metrics
        self._reserve = plugins.at(ExtensionPoint.RESERVE)
        self._permit = plugins.at(ExtensionPoint.PERMIT)
        self._pre_bind = plugins.at(ExtensionPoint.PRE_BIND)
        self.has_pre_bind = bool(self._pre_bind)
        self._bind = plugins.at(ExtensionPoint.BIND)
        self._post_bind = plugins.at(ExtensionPoint.POST_BIND)
        # Whether a plugin may make pods wait.
        self.may_wait = bool(self._permit)
        self.has_post_bind = bool(self._post_bind)

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        started_ns = self._metrics.now_ns()
        status = self._call_reserve(state, pod, node_name)
        self._metrics.observe("Reserve", status.code, started_ns)
        return status

    def _call_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        reserve = _reserve if state.plugin_timer is None else _timed_reserve
        for plugin in self._reserve:
            status = reserve(plugin, state, pod, node_name)
            if status is not SUCCESS and not status.is_success:
                return _failed_status(f'running Reserve plugin "{plugin.name}"', plugin, status)
        return SUCCESS

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run Unreserve of all plugins in reverse order, including those that did not reserve."""
        started_ns = self._metrics.now_ns()
        for plugin in reversed(self._reserve):
            with timing_of(state, plugin, "Unreserve"):
                try:
                    plugin.unreserve(state, pod, node_name)
                except THROWN as exc:
                    pass_on_interrupt(exc)
                    # The other plugins must still release their reservations.
                    log.exception("Unreserve failed", exc, plugin=plugin.name, pod=pod)
        self._metrics.observe("Unreserve", Code.SUCCESS, started_ns)

    def run_permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Run Permit. On WAIT the pod is added to the waiting pods."""
        return self._run_permit(state, pod, node_name, adds_waiting=True)

    def try_permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Run Permit without adding the pod to the waiting pods, in a trial placement."""
        return self._run_permit(state, pod, node_name, adds_waiting=False)

    def _run_permit(
        self, state: CycleState, pod: Pod, node_name: str, *, adds_waiting: bool
    ) -> Status:
        if not self._permit:
            self._metrics.observe_nothing("Permit")
            return SUCCESS
        started_ns = self._metrics.now_ns()
        status = self._call_permit(state, pod, node_name, adds_waiting=adds_waiting)
        self._metrics.observe("Permit", status.code, started_ns)
        return status

    def _call_permit(
        self, state: CycleState, pod: Pod, node_name: str, *, adds_waiting: bool
    ) -> Status:
        timeouts_ns: dict[str, int] = {}
        reasons: tuple[str, ...] = ()
        for plugin in self._permit:
            with timing_of(state, plugin, "Permit") as timed:
                try:
                    answer = as_permit_answer(plugin.permit(state, pod, node_name))
                except THROWN as exc:
                    answer = failure_of(exc)
                timed.code = Code.WAIT if isinstance(answer, Wait) else answer.code
            if isinstance(answer, Wait):
                timeouts_ns[plugin.name] = min(answer.timeout_ns, MAX_PERMIT_TIMEOUT_NS)
                reasons = answer.reasons
            elif not answer.is_success:
                return _failed_status(f'running Permit plugin "{plugin.name}"', plugin, answer)
        if not timeouts_ns:
            return SUCCESS
        if adds_waiting:
            self._services.waiting_pods.add(WaitingPodEntry(pod, timeouts_ns))
        return Status(Code.WAIT, (*reasons, _WAITING))

    async def wait_on_permit(self, pod: Pod) -> Status:
        """Wait until a waiting pod is allowed, rejected or timed out."""
        entry = self._services.waiting_pods.get(pod.metadata.uid)
        if entry is None:
            return SUCCESS
        clock, metrics = self._services.clock, self._services.metrics
        started_ns = clock.monotonic_ns()
        try:
            status = await entry.outcome()
        finally:
            self._services.waiting_pods.remove(pod.metadata.uid)
        waited_ns = clock.monotonic_ns() - started_ns
        metrics.permit_wait_duration_seconds.labels(status.code.label).observe_ns(waited_ns)
        if status.is_success or status.is_rejected:
            return status
        return Status.failure(f"waiting on permit for pod: {status.message}").blame(status.plugin)

    def will_wait_on_permit(self, pod: Pod) -> bool:
        return bool(self._permit) and self._services.waiting_pods.get(pod.metadata.uid) is not None

    def run_pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Return SUCCESS if some plugin has PreBind work for this pod, SKIP if none has."""
        started_ns = self._metrics.now_ns()
        status = self._call_pre_flight(state, pod, node_name)
        self._metrics.observe("PreBindPreFlight", status.code, started_ns)
        return status

    def _call_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        overall = SKIP
        for plugin in self._pre_bind:
            try:
                status = plugin.pre_bind_pre_flight(state, pod, node_name)
            except THROWN as exc:
                status = failure_of(exc)
            if status is SKIP:  # the usual case
                state.skip_pre_bind.add(plugin.name)
                continue
            status = as_status(status)
            if status.is_success:
                overall = SUCCESS
            elif status.is_skip:
                state.skip_pre_bind.add(plugin.name)
            elif status.code is Code.ERROR:
                return _failed_status(f'running PreBindPreFlight "{plugin.name}"', plugin, status)
            else:
                return Status.failure(
                    f'PreBindPreFlight {plugin.name} returned "{status.code.label}", '
                    "which is unsupported. It is supposed to return Success, Skip, or Error status"
                ).blame(plugin.name)
        return overall

    async def run_pre_bind(
        self, state: CycleState, pod: Pod, node_name: str, entry: PodInPreBindEntry | None = None
    ) -> Status:
        """Run PreBind; adjacent plugins that allow it run at the same time.

        A plugin without work still separates the groups before and after it, unless it allows
        parallel runs itself.
        """
        started_ns = self._metrics.now_ns()
        status = await self._run_pre_bind(state, pod, node_name, entry)
        self._metrics.observe("PreBind", status.code, started_ns)
        return status

    async def _run_pre_bind(
        self, state: CycleState, pod: Pod, node_name: str, entry: PodInPreBindEntry | None
    ) -> Status:
        for parallel, neighbours in groupby(self._pre_bind, lambda p: p.pre_bind_in_parallel):
            work = [plugin for plugin in neighbours if plugin.name not in state.skip_pre_bind]
            groups = [work] if parallel else [[plugin] for plugin in work]
            for group in groups:
                try:
                    status = await self._run_group(group, state, pod, node_name)
                except asyncio.CancelledError:
                    task = asyncio.current_task()
                    if entry is None or not entry.cancel_reason or task is None:
                        raise
                    task.uncancel()
                    names = group[0].name
                    return Status.failure(
                        f'running PreBind plugin "{names}": {entry.cancel_reason}'
                    )
                if not status.is_success:
                    return status
        return SUCCESS

    async def _run_group(
        self, group: list[Plugin], state: CycleState, pod: Pod, node_name: str
    ) -> Status:
        if len(group) == 1:
            return await _pre_bind(group[0], state, pod, node_name)
        tasks = [
            asyncio.create_task(_pre_bind(plugin, state, pod, node_name), name=plugin.name)
            for plugin in group
        ]
        failed = SUCCESS
        try:
            for task in asyncio.as_completed(tasks):
                status = await task
                if not status.is_success:
                    failed = status
                    break
        finally:
            for pending in tasks:
                pending.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return failed

    async def run_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Call the Bind plugins in order until one does not skip."""
        started_ns = self._metrics.now_ns()
        status = SKIP
        is_timed = state.plugin_timer is not None
        for plugin in self._bind:
            try:
                if is_timed:
                    status = await _timed_bind(plugin, state, pod, node_name)
                else:
                    status = as_status(await plugin.bind(state, pod, node_name))
            except THROWN as exc:
                if is_being_ended(exc):
                    raise
                status = failure_of(exc)
            if status is SUCCESS:
                break
            if not status.is_skip:
                if not status.is_success:
                    status = _failed_status(f'running Bind plugin "{plugin.name}"', plugin, status)
                break
        self._metrics.observe("Bind", status.code, started_ns)
        return status

    async def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        started_ns = self._metrics.now_ns()
        for plugin in self._post_bind:
            with timing_of(state, plugin, "PostBind"):
                try:
                    await plugin.post_bind(state, pod, node_name)
                except THROWN as exc:
                    if is_being_ended(exc):
                        raise
                    pass_on_interrupt(exc)
                    # The pod is bound, so a failure of PostBind is only logged.
                    log.exception("PostBind failed", exc, plugin=plugin.name, pod=pod)
        self._metrics.observe("PostBind", Code.SUCCESS, started_ns)


def _reserve(plugin: Plugin, state: CycleState, pod: Pod, node_name: str) -> Status:
    try:
        status = plugin.reserve(state, pod, node_name)
        return status if status is SUCCESS else as_status(status)
    except THROWN as exc:
        return failure_of(exc)


def _timed_reserve(plugin: Plugin, state: CycleState, pod: Pod, node_name: str) -> Status:
    with timing_of(state, plugin, "Reserve") as timed:
        status = _reserve(plugin, state, pod, node_name)
        timed.code = status.code
    return status


async def _timed_bind(plugin: Plugin, state: CycleState, pod: Pod, node_name: str) -> Status:
    with timing_of(state, plugin, "Bind") as timed:
        status = as_status(await plugin.bind(state, pod, node_name))
        timed.code = status.code
    return status


async def _pre_bind(plugin: Plugin, state: CycleState, pod: Pod, node_name: str) -> Status:
    with timing_of(state, plugin, "PreBind") as timed:
        try:
            status = as_status(await plugin.pre_bind(state, pod, node_name))
        except THROWN as exc:
            if is_being_ended(exc):
                raise
            status = failure_of(exc)
        timed.code = status.code
    if status.is_success:
        return status
    return _failed_status(f'running PreBind plugin "{plugin.name}"', plugin, status)


def _failed_status(what: str, plugin: Plugin, status: Status) -> Status:
    """Return a rejection unchanged; wrap anything else in an error that names the plugin."""
    if status.is_rejected:
        return status.blame(plugin.name)
    error = PluginError(f"{what}: {status.message}")
    error.__cause__ = status.error
    # As in the reference, the text names the plugin and the status does not.
    return Status.failure(error)
