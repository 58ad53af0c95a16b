"""Whether the devices of an allocated claim are ready for use.

docs/reference/08 §6.1.

A device may have to be prepared or attached first. Its driver then reports conditions. Before
the pod is bound, all binding conditions must be true, and no failure condition may be.
"""

from __future__ import annotations

from kubesched.api import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from kubesched.api.time import parse_time
from kubesched.errors import KubeschedError

__all__ = ["BindingFailedError", "has_conditions", "is_ready", "is_timed_out", "is_unusable"]

_TRUE = "True"


class BindingFailedError(KubeschedError):
    """A device reported that it cannot be used."""


def has_conditions(claim: ResourceClaim) -> bool:
    """Whether a device of the claim has conditions to wait for."""
    allocation = claim.status.allocation
    return allocation is not None and any(
        result.binding_conditions for result in allocation.devices.results
    )


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all conditions of all devices are met.

    Raises:
        BindingFailedError: a device reported a failure.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        reported = _status_of(claim, result)
        if reported is None:
            return False
        conditions = {each.type: each for each in reversed(reported.conditions)}
        for kind in result.binding_failure_conditions:
            condition = conditions.get(kind)
            if condition is not None and condition.status == _TRUE:
                raise BindingFailedError(
                    f"device binding failed: claim={claim.metadata.name}, "
                    f'reason={condition.reason}, message="{condition.message}"'
                )
        for kind in result.binding_conditions:
            condition = conditions.get(kind)
            if condition is None or condition.status != _TRUE:
                return False
    return True


def is_timed_out(claim: ResourceClaim, timeout_ns: int, now_ns: int) -> bool:
    """Whether conditions are still open after the timeout since the allocation."""
    allocation = claim.status.allocation
    if allocation is None or not allocation.allocation_timestamp or not has_conditions(claim):
        return False
    try:
        allocated_ns = parse_time(allocation.allocation_timestamp)
    except ValueError:
        return False
    return allocated_ns + timeout_ns < now_ns


def is_unusable(claim: ResourceClaim, timeout_ns: int, now_ns: int) -> bool:
    """Whether the devices failed, or did not become ready in time."""
    try:
        return not is_ready(claim) and is_timed_out(claim, timeout_ns, now_ns)
    except BindingFailedError:
        return True


def _status_of(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    for each in claim.status.devices:
        if (each.driver, each.pool, each.device) == (result.driver, result.pool, result.device):
            return each
    return None
