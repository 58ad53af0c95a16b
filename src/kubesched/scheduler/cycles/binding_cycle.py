"""The binding cycle: the asynchronous half of an attempt (docs/reference/04 §14).

It waits on Permit, runs PreBind, Bind and PostBind, and undoes the placement if one of them fails.
"""

from __future__ import annotations

import asyncio

import msgspec

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.errors import CacheError
from kubesched.foundation.util.clock import SteadyClock
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    SKIP,
    SUCCESS,
    CycleState,
    FitError,
    PodInfo,
    Status,
)
from kubesched.framework.cluster_events import ASSIGNED_POD_DELETE
from kubesched.framework.pod_status_writer import StatusWriter
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue import SchedulingQueue
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.cycles.failure import CLEAR_NOMINATION, FailureHandler
from kubesched.scheduler.extenders.chain import Extenders
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.services import Services
from kubesched.scheduler.runtime.waiting_pods import PodInPreBindEntry

__all__ = ["BindingCycle", "PodPlacement"]

log = get_logger(__name__)


class PodPlacement(msgspec.Struct, frozen=True, eq=False):
    """A pod that the scheduling cycle placed on a node, where it is assumed."""

    attempt: Attempt
    assumed: PodInfo
    node_name: str

    @property
    def pod(self) -> Pod:
        return self.assumed.pod

    @property
    def framework(self) -> Framework:
        return self.attempt.framework

    @property
    def state(self) -> CycleState:
        return self.attempt.state


class BindingCycle:
    """Binds placed pods, each in a separate task."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        services: Services,
        writer: StatusWriter,
        failures: FailureHandler,
        clock: SteadyClock,
        extenders: Extenders | None = None,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._services = services
        self._writer = writer
        self._failures = failures
        self._clock = clock
        self._extenders = extenders
        self._running = services.metrics.goroutines.labels("binding")
        # The gate of PreBindPreFlight and of publishing the chosen node before a long binding.
        self._has_expectations = services.feature_enabled("NominatedNodeNameForExpectation")

    async def run(self, placement: PodPlacement) -> None:
        """Bind the pod. It is in flight in its framework until the end of the cycle."""
        self._running.value += 1
        try:
            try:
                status = await self._bind(placement)
            except Exception as exc:
                # Whatever failed, the pod's assumption and reservations must be undone.
                log.exception("Binding a pod failed", exc, pod=placement.pod)
                status = Status.failure(exc)
            if status is SUCCESS or status.is_success:
                self._succeed(placement)
                if placement.framework.binding.has_post_bind:
                    await self._post_bind(placement)
            else:
                self._fail(placement, status)
        finally:
            self._running.value -= 1
            placement.attempt.framework.pods_in_flight.leave()

    async def _bind(self, placement: PodPlacement) -> Status:
        framework, state = placement.attempt.framework, placement.attempt.state
        pod, node_name = placement.assumed.pod, placement.node_name
        binding = framework.binding
        may_wait = binding.may_wait
        if self._has_expectations:
            pre_flight = binding.run_pre_bind_pre_flight(state, pod, node_name)
            has_work = pre_flight is not SKIP and pre_flight.is_success
            if not has_work and pre_flight is not SKIP and not pre_flight.is_skip:
                return pre_flight
            if has_work or (may_wait and binding.will_wait_on_permit(pod)):
                await self._publish_choice(pod, node_name)
        else:
            has_work = binding.has_pre_bind
        if may_wait:
            status = await binding.wait_on_permit(pod)
            if status.is_rejected:
                return _one_node_rejection(node_name, status)
            if not status.is_success:
                return status
        # From here on a failure is no rejection by a plugin, so no event would requeue the pod.
        self._queue.done(pod.metadata.uid)
        if has_work:
            status = await self._pre_bind(placement)
            if not status.is_success:
                return status
        else:
            # A PreBind without work is counted too, as in the reference.
            framework.point_metrics.observe_nothing("PreBind")
        if self._extenders is not None:
            bound = await self._extenders.bind(pod, node_name)
            if bound is not None:
                return bound
        return await binding.run_bind(state, pod, node_name)

    async def _pre_bind(self, placement: PodPlacement) -> Status:
        task = asyncio.current_task()
        assert task is not None
        entry = PodInPreBindEntry(placement.pod, task)
        self._services.pods_in_pre_bind.add(entry)
        try:
            status = await placement.framework.binding.run_pre_bind(
                placement.state, placement.pod, placement.node_name, entry
            )
            if status.is_success and not entry.mark_prebound():
                return Status.failure(entry.cancel_reason)
            return status
        finally:
            self._services.pods_in_pre_bind.remove(entry.pod.metadata.uid)

    async def _publish_choice(self, pod: Pod, node_name: str) -> None:
        """Publish the node in `status.nominatedNodeName`, because binding may take a while."""
        try:
            await self._writer.write(pod, None, node_name)
        except ApiError as exc:
            log.error("Failed to write the nominated node", exc=exc, pod=pod)

    def _succeed(self, placement: PodPlacement) -> None:
        attempt, pod, node_name = placement.attempt, placement.assumed.pod, placement.node_name
        framework = attempt.framework
        if log.enabled(2):
            log.detail(2, "Successfully bound pod to node", pod=pod, node=node_name)
        self._observe_success(attempt)
        framework.recorder.event(
            pod,
            "Normal",
            "Scheduled",
            "Binding",
            f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {node_name}",
        )
        if not framework.binding.has_post_bind:
            framework.point_metrics.observe_nothing("PostBind")
            self._activate_waiting(attempt.state)

    async def _post_bind(self, placement: PodPlacement) -> None:
        state, binding = placement.state, placement.framework.binding
        await binding.run_post_bind(state, placement.pod, placement.node_name)
        self._activate_waiting(state)

    def _activate_waiting(self, state: CycleState) -> None:
        if state.pods_to_activate:
            self._queue.activate(state.pods_to_activate, self._clock.now_ns())
            state.pods_to_activate.clear()

    def _observe_success(self, attempt: Attempt) -> None:
        metrics, now_ns = self._services.metrics, self._clock.monotonic_ns()
        profile, queued = attempt.framework.profile_name, attempt.queued
        metrics.observe_attempt("scheduled", profile, now_ns - attempt.started_ns)
        admitted_ns = queued.initial_attempt_timestamp_ns
        since_ns = None if admitted_ns is None else self._clock.wall_ns(now_ns) - admitted_ns
        metrics.observe_bound(queued.attempts, since_ns)

    def _fail(self, placement: PodPlacement, status: Status) -> None:
        pod, uid = placement.pod, placement.pod.metadata.uid
        placement.framework.binding.run_unreserve(placement.state, pod, placement.node_name)
        is_forgotten = True
        try:
            self._cache.forget_pod(pod)
        except CacheError as exc:
            is_forgotten = False
            log.error("Scheduler cache could not forget a pod", exc=exc, pod=pod)
        now_ns = self._clock.now_ns()
        if not status.is_rejected and is_forgotten:
            self._queue.move_all(ASSIGNED_POD_DELETE, pod, None, now_ns)
        self._failures.handle(placement.attempt, status, CLEAR_NOMINATION)
        if status.is_rejected and is_forgotten:
            # The resources that the pod released must not requeue the rejected pod itself.
            self._queue.move_all(
                ASSIGNED_POD_DELETE,
                pod,
                None,
                now_ns,
                pre_check=lambda waiting: waiting.metadata.uid != uid,
            )


def _one_node_rejection(node_name: str, status: Status) -> Status:
    error = FitError.for_one_node(node_name, status)
    return Status(status.code, (), error, status.plugin)
