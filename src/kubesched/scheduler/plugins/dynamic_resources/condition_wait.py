"""Wait for the binding conditions of a pod's devices (docs/reference/08 §6.2)."""

from __future__ import annotations

from kubesched.api import Pod
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import SUCCESS, Handle, Status
from kubesched.scheduler.plugins.dynamic_resources import binding_conditions
from kubesched.scheduler.plugins.dynamic_resources.binding_conditions import BindingFailedError
from kubesched.scheduler.plugins.dynamic_resources.device_state import DeviceState
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import PodDevices

__all__ = ["ConditionWait"]

_POLL_NS = 5 * SECOND


class _TimedOutError(Exception):
    """The devices did not become ready in time."""


class ConditionWait:
    """Polls the claims of a pod in PreBind until their devices are ready."""

    def __init__(self, handle: Handle, devices: DeviceState, timeout_ns: int) -> None:
        self._handle = handle
        self._devices = devices
        self._timeout_ns = timeout_ns

    async def wait_until_ready(self, data: PodDevices, pod: Pod, node_name: str) -> Status:
        """Wait for all binding conditions; return SUCCESS or the error."""
        if not any(binding_conditions.has_conditions(claim) for claim in data.claims):
            return SUCCESS
        self._handle.recorder.event(
            pod,
            "Normal",
            "BindingConditionsPending",
            "Scheduling",
            f"waiting for binding conditions for device on node {node_name}",
        )
        started_ns = self._handle.clock.monotonic_ns()
        status, outcome = SUCCESS, "success"
        try:
            await self._poll(data, started_ns)
        except BindingFailedError as exc:
            status, outcome = Status.failure(exc), "failure"
        except _TimedOutError as exc:
            status, outcome = Status.failure(str(exc)), "timeout"
        except LookupError as exc:
            status, outcome = Status.failure(str(exc)), "error"
        self._observe(data, outcome, self._handle.clock.monotonic_ns() - started_ns)
        return status

    async def _poll(self, data: PodDevices, started_ns: int) -> None:
        clock = self._handle.clock
        while not self._are_ready(data):
            left_ns = started_ns + self._timeout_ns - clock.monotonic_ns()
            if left_ns <= 0:
                raise _TimedOutError("device binding timeout: context deadline exceeded")
            await clock.sleep(min(_POLL_NS, left_ns))

    def _are_ready(self, data: PodDevices) -> bool:
        for place, allocated in enumerate(data.claims):
            metadata = allocated.metadata
            claim = self._devices.claims.get(metadata.name, metadata.namespace)
            if claim is None:
                if place == data.special and allocated.status.allocation is None:
                    continue  # a device plugin serves the extended resources: there is no claim
                raise LookupError(
                    f'could not find ResourceClaim "{metadata.namespace}/{metadata.name}"'
                )
            if binding_conditions.is_ready(claim):
                continue
            if binding_conditions.is_timed_out(
                claim, self._timeout_ns, self._handle.clock.now_ns()
            ):
                raise _TimedOutError(f"device binding timeout: claim={metadata.name}")
            return False
        return True

    def _observe(self, data: PodDevices, outcome: str, duration_ns: int) -> None:
        metrics, profile = self._handle.metrics, self._handle.profile_name
        for claim in data.claims:
            allocation = claim.status.allocation
            for result in allocation.devices.results if allocation is not None else ():
                metrics.observe_binding_conditions(profile, result.driver, outcome, duration_ns)
                if result.binding_conditions:
                    metrics.count_binding_conditions(profile, result.driver, outcome)
