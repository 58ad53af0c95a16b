"""Liveness scenarios that were added when the plans of all seeds were in use.

Every plan has one of them after the others, so that the rest of a seed's history stays the same.
They are like those of `directed_scenarios.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from kubesched.api import Pod, ResourceClaim
from kubesched.api.access import ApiError
from kubesched.foundation.client.transport import OutgoingRequest
from tests.fault_injection.contended_scenarios import ScenarioSteps
from tests.fault_injection.intercepted_requests import is_request, once, refusal
from tests.fault_injection.plan import Plan
from tests.fault_injection.scenario_parts import GATES, ScenarioParts
from tests.foundation.client.wire_network import Trouble

__all__ = ["LATER_SCENARIOS", "later_kinds"]


async def _resize_in_progress(scenario: ScenarioParts) -> ScenarioSteps:
    """Only the status of a pod says that it still uses more than its spec requests."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("300m", resources={"requests": {"cpu": "300m"}})
    await asyncio.sleep(3)
    await _report_resources(scenario, "700m")
    await asyncio.sleep(1)
    await scenario.add_pod()
    yield
    await _report_resources(scenario, "300m")
    yield
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()


async def _report_resources(scenario: ScenarioParts, cpu: str) -> None:
    """Write what the filler has, as a whole. The kubelets here report only on containers."""
    amounts = {"cpu": cpu}
    status = {"status": {"resources": {"requests": amounts}, "allocatedResources": amounts}}
    await scenario.change(Pod, scenario.filler, status, "status")


async def _binding_refused(scenario: ScenarioParts) -> ScenarioSteps:
    """The bindings of a preemptor fail; then its nomination must end."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("800m")
    await scenario.add_pod(priorityClassName="high", schedulingGates=GATES)
    refused = [refusal(422, "Invalid")] * 20
    scenario.intercept(once(is_request("POST", f"/pods/{scenario.pod}/binding"), *refused))
    yield
    await scenario.open_gate()
    await asyncio.sleep(9)
    pod = await scenario.api.get(Pod, scenario.pod, "default")
    is_free = not await scenario.has(Pod, scenario.filler)
    if is_free and not pod.spec.node_name and pod.status.nominated_node_name:
        scenario.wrong.append("a pod stays nominated to the node where its binding failed")
    scenario.intercept(None)
    yield


async def _devices_change_in_a_gap(scenario: ScenarioParts) -> ScenarioSteps:
    """A claim gets another device while the scheduler watches nothing; the first is free then."""
    await scenario.add_node(annotations=scenario.devices(2))
    await scenario.add_device_claim(scenario.filler)
    await asyncio.sleep(1)
    await scenario.allocate(scenario.filler, "gpu-0")
    await scenario.add_device_claim()
    await scenario.add_pod(
        schedulingGates=GATES, **scenario.with_device(resourceClaimName=scenario.pod)
    )
    yield

    def unavailable(request: OutgoingRequest) -> Trouble | None:
        is_about_claims = "/resourceclaims" in request.target and request.method == "GET"
        return refusal(503, "ServiceUnavailable") if is_about_claims else None

    scenario.intercept(unavailable)
    scenario.forget_history()
    await asyncio.sleep(0.1)
    await scenario.change(
        ResourceClaim, scenario.filler, {"status": {"allocation": None}}, "status"
    )
    await scenario.allocate(scenario.filler, "gpu-1")
    scenario.forget_history()
    await asyncio.sleep(1)
    scenario.intercept(None)
    # The backoff of the informers is over then. A scheduler without the change may give the second
    # device to another claim, because the API does not know whether a device is free.
    await asyncio.sleep(60)
    await scenario.open_gate()
    yield


_Applies = Callable[[Plan], Any]
LATER_SCENARIOS: dict[str, tuple[Callable[[ScenarioParts], ScenarioSteps], _Applies]] = {
    "resize in progress": (_resize_in_progress, lambda _: True),
    "binding refused": (_binding_refused, lambda plan: plan.preempts),
    "devices change in a gap": (_devices_change_in_a_gap, lambda plan: plan.devices),
}


def later_kinds(plan: Plan) -> list[str]:
    """Return the kinds for which a plan's cluster has the features."""
    return [name for name, (_, applies) in LATER_SCENARIOS.items() if applies(plan)]
