"""Directed scenarios with volumes and devices (`directed_scenarios.py`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from kubesched.api import PersistentVolume, Pod, ResourceClaim
from kubesched.api.access import ApiError
from kubesched.foundation.client.transport import OutgoingRequest
from kubesched.foundation.util.clock import SECOND
from tests.fault_injection.contended_scenarios import ScenarioSteps
from tests.fault_injection.faulty_plugin import HOLD_MODE
from tests.fault_injection.intercepted_requests import is_request, once, refusal
from tests.fault_injection.plan import Plan
from tests.fault_injection.scenario_parts import GATES, ScenarioParts
from tests.foundation.client.wire_network import Trouble

__all__ = ["CLAIM_SCENARIOS"]

# Volumes


async def _two_volumes(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod needs two volumes of its node, and only one exists."""
    await scenario.add_node()
    await scenario.add_volume()
    await scenario.add_claim()
    await scenario.add_claim(suffix="0")
    await scenario.add_pod(**scenario.with_claims("", "0"))
    await asyncio.sleep(2)
    volume = await scenario.api.get(PersistentVolume, f"disk-{scenario.node}")
    if volume.spec.claim_ref is not None:
        scenario.wrong.append("a volume was taken for a pod that needs another one")
    yield
    await scenario.add_volume(suffix="0")
    yield


async def _volume_changes_hands(scenario: ScenarioParts) -> ScenarioSteps:
    """Two pods choose the only volume one after the other, while the write of the first hangs.

    The volume is changed in between, so that the second may use it. The first gets another volume
    later.
    """
    await scenario.add_node()
    await scenario.add_volume()
    await scenario.add_claim()
    await scenario.add_claim(suffix="0")
    slow = Trouble(travel_ns=3 * SECOND)
    volume = f"disk-{scenario.node}"
    scenario.intercept(once(is_request("PUT", f"/persistentvolumes/{volume}"), slow, slow))
    await scenario.add_pod(**scenario.with_claims(""))
    await asyncio.sleep(1)
    patch = {"metadata": {"annotations": {"seen": "yes"}}}
    await scenario.api.patch(PersistentVolume, volume, None, patch, patch_type="merge")
    await scenario.add_filler(
        nodeName="", nodeSelector=scenario.labels, **scenario.with_claims("0")
    )
    await asyncio.sleep(8)
    yield
    scenario.intercept(None)
    await scenario.add_volume(suffix="0")
    yield


async def _volume_refused(scenario: ScenarioParts) -> ScenarioSteps:
    """The server refuses the only volume of a node once; the pod must use it on its retry."""
    await scenario.add_node()
    await scenario.add_volume()
    await scenario.add_claim()
    await scenario.add_pod(schedulingGates=GATES, **scenario.with_claims(""))
    path = f"/persistentvolumes/disk-{scenario.node}"
    scenario.intercept(once(is_request("PUT", path), refusal(422, "Invalid")))
    yield
    await scenario.open_gate()
    yield
    scenario.intercept(None)


# Devices


async def _gone_in_a_gap(scenario: ScenarioParts) -> ScenarioSteps:
    """The claim with the only device is deleted while the scheduler has no watch."""
    await scenario.add_node(annotations=scenario.devices(1))
    await scenario.add_device_claim(scenario.filler)
    await asyncio.sleep(1)
    await scenario.allocate(scenario.filler, "gpu-0")
    await scenario.add_device_claim()
    await scenario.add_pod(**scenario.with_device(resourceClaimName=scenario.pod))
    yield

    async with scenario.gap("resourceclaims"):
        await scenario.api.delete(ResourceClaim, scenario.filler, "default")
    yield


async def _allocated_elsewhere(scenario: ScenarioParts) -> ScenarioSteps:
    """Another client allocates the claim while the scheduler's write is in flight."""
    await scenario.add_node(annotations=scenario.devices(2))
    await scenario.add_device_claim()
    await scenario.add_pod(
        schedulingGates=GATES, **scenario.with_device(resourceClaimName=scenario.pod)
    )
    yield
    is_allocated = is_request("PUT", f"/resourceclaims/{scenario.pod}/status")
    written = 0

    def trouble(request: OutgoingRequest) -> Trouble | None:
        nonlocal written
        if not is_allocated(request) or b'"gpu-0"' not in request.body:
            return None
        written += 1
        return Trouble(travel_ns=2 * SECOND)

    scenario.intercept(trouble)
    await scenario.open_gate()
    await asyncio.sleep(1)
    await scenario.allocate(scenario.pod, "gpu-1")
    await asyncio.sleep(3)
    if written > 1:  # the first write began before the other client's
        scenario.wrong.append("an allocation that another client wrote should be overwritten")
    scenario.intercept(None)
    yield


async def _late_write(scenario: ScenarioParts) -> ScenarioSteps:
    """The connection breaks while a claim is written, and the write takes effect seconds later.

    The claim cannot be read in between. Another pod waits for the device.
    """
    await scenario.add_node(annotations=scenario.devices(1))
    await scenario.add_device_claim(scenario.filler)
    await scenario.add_device_claim()
    path, is_over = f"/resourceclaims/{scenario.filler}", False

    def trouble(request: OutgoingRequest) -> Trouble | None:
        if is_over or path not in request.target:
            return None
        if request.method == "GET":
            return refusal(500, "InternalError")
        return Trouble(lost=True) if f"{path}/status" in request.target else None

    scenario.intercept(trouble)
    await scenario.add_filler(
        nodeName="",
        nodeSelector=scenario.labels,
        **scenario.with_device(resourceClaimName=scenario.filler),
    )
    await asyncio.sleep(0.5)
    await scenario.add_pod(**scenario.with_device(resourceClaimName=scenario.pod))
    await asyncio.sleep(4)
    await scenario.allocate(scenario.filler, "gpu-0")
    await asyncio.sleep(1)
    is_over = True
    yield
    scenario.intercept(None)
    await scenario.remove_filler()
    await scenario.api.delete(ResourceClaim, scenario.filler, "default")
    yield


async def _claim_released(scenario: ScenarioParts) -> ScenarioSteps:
    """The binding of a pod fails after its claim was written, and it is never placed again."""
    await scenario.add_node(annotations=scenario.devices(1))
    await scenario.add_device_claim()
    held = {"annotations": {HOLD_MODE: "fails"}}
    await scenario.add_filler(
        nodeName="",
        nodeSelector=scenario.labels,
        **held,
        **scenario.with_device(resourceClaimName=scenario.pod),
    )
    await asyncio.sleep(2)
    await scenario.add_class(scenario.filler)  # the plugin gives up
    await asyncio.sleep(3)
    claim = await scenario.api.get(ResourceClaim, scenario.pod, "default")
    pod = await scenario.api.get(Pod, scenario.filler, "default")
    if not pod.spec.node_name and claim.status.reserved_for:
        scenario.wrong.append("a claim stays reserved for a pod whose binding failed")
    await scenario.add_pod(
        schedulingGates=GATES, **scenario.with_device(resourceClaimName=scenario.pod)
    )
    yield
    await scenario.open_gate()
    yield
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()


async def _duplicate_claim(scenario: ScenarioParts) -> ScenarioSteps:
    """A claim controller that restarted has made two claims for a pod; its status names one."""
    await scenario.add_node(annotations=scenario.devices(1))
    await scenario.add_device_template()
    await scenario.add_pod(
        schedulingGates=GATES, **scenario.with_device(resourceClaimTemplateName=scenario.pod)
    )
    await asyncio.sleep(2)
    await scenario.duplicate_claim()
    yield
    await scenario.open_gate()
    yield


async def _shared_by_a_gang(scenario: ScenarioParts) -> ScenarioSteps:
    """Two members share a claim in flight; the write of the first fails, that of the other hangs.

    A third pod waits for the device.
    """
    await scenario.add_node(annotations=scenario.devices(1))
    await scenario.add_group(2)
    await scenario.add_device_claim(scenario.filler)
    await scenario.add_device_claim()
    writes_claim = is_request("PUT", f"/resourceclaims/{scenario.filler}/status")
    is_written = asyncio.Event()

    def is_write(request: OutgoingRequest) -> bool:
        if writes_claim(request):
            is_written.set()
        return writes_claim(request)

    slow = Trouble(server_ns=5 * SECOND)
    scenario.intercept(once(is_write, refusal(422, "Invalid"), slow))
    for suffix in ("", "0"):
        await scenario.add_filler(
            suffix=suffix,
            nodeName="",
            nodeSelector=scenario.labels,
            **scenario.in_group,
            **scenario.with_device(resourceClaimName=scenario.filler),
        )
    # A gang that has no node yet, because another leader takes over, does not hold the device.
    gates = []
    try:
        await asyncio.wait_for(is_written.wait(), 4)
    except TimeoutError:
        gates = GATES
    await scenario.add_pod(
        schedulingGates=gates, **scenario.with_device(resourceClaimName=scenario.pod)
    )
    await asyncio.sleep(12)
    yield
    scenario.intercept(None)
    for suffix in ("", "0"):
        await scenario.api.delete(
            Pod, f"{scenario.filler}{suffix}", "default", grace_period_seconds=0
        )
    await scenario.api.delete(ResourceClaim, scenario.filler, "default")
    if gates:
        await scenario.open_gate()
    yield


# Each with the plans whose clusters have the features.
CLAIM_SCENARIOS: dict[
    str, tuple[Callable[[ScenarioParts], ScenarioSteps], Callable[[Plan], object]]
] = {
    "two volumes": (_two_volumes, lambda plan: plan.volumes),
    "volume changes hands": (_volume_changes_hands, lambda plan: plan.volumes),
    "volume refused": (_volume_refused, lambda plan: plan.volumes),
    "gone in a gap": (_gone_in_a_gap, lambda plan: plan.devices),
    "allocated elsewhere": (_allocated_elsewhere, lambda plan: plan.devices),
    "late write": (_late_write, lambda plan: plan.devices),
    "claim released": (_claim_released, lambda plan: plan.devices and plan.plugin),
    "duplicate claim": (_duplicate_claim, lambda plan: plan.devices),
    "shared by a gang": (_shared_by_a_gang, lambda plan: plan.devices and plan.groups),
}
