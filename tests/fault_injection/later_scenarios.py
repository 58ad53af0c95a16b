"""Liveness scenarios that were added when the plans of all seeds were in use.

Every plan has one of them after the others, so that the rest of a seed's history stays the same.
They are like those of `directed_scenarios.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from kubesched.api import Lease, PersistentVolumeClaim, Pod, ResourceClaim
from kubesched.api.access import ApiError
from kubesched.cluster.nodes.pod_behavior import PREFIX
from kubesched.foundation.client.transport import OutgoingRequest
from tests.fault_injection.approving_plugin import NEEDS_TWO_APPROVALS, REJECTED_ONCE
from tests.fault_injection.contended_scenarios import ScenarioSteps
from tests.fault_injection.intercepted_requests import is_request, once, refusal
from tests.fault_injection.plan import Plan
from tests.fault_injection.scenario_parts import GATES, ScenarioParts

__all__ = ["LATER_SCENARIOS", "later_kinds"]

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_PROVISIONED_AFTER_S = 15
_TAKEN_OVER_WITHIN_S = 120


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
        await scenario.remove_node()


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

    async def is_nominated() -> bool:
        pod = await scenario.api.get(Pod, scenario.pod, "default")
        is_free = not await scenario.has(Pod, scenario.filler)
        return is_free and not pod.spec.node_name and bool(pod.status.nominated_node_name)

    if await _stays(is_nominated):
        scenario.wrong.append("a pod stays nominated to the node where its binding failed")
    scenario.intercept(None)
    yield


async def _stays(holds: Callable[[], Awaitable[bool]]) -> bool:
    """Whether something holds for a while. The write that ends it may be in flight at first."""
    for _ in range(4):
        if not await holds():
            return False
        await asyncio.sleep(0.5)
    return True


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

    async with scenario.gap("resourceclaims"):
        await scenario.change(
            ResourceClaim, scenario.filler, {"status": {"allocation": None}}, "status"
        )
        await scenario.allocate(scenario.filler, "gpu-1")
    # The backoff of the informers is over then. A scheduler without the change may give the second
    # device to another claim, because the API does not know whether a device is free.
    await asyncio.sleep(60)
    await scenario.open_gate()
    yield


async def _recreated_unseen(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod on a node is deleted, and another one with its name is created and deleted.

    The watch has only the deletion of the second one.
    """
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("800m")
    await scenario.add_pod()
    yield
    async with scenario.merged("pods"):
        await scenario.remove_filler()
        await scenario.add_filler("800m", nodeName="", schedulingGates=GATES)
        await scenario.remove_filler()
    yield


async def _two_approvals(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod waits on Permit for two plugins. The first allows it, the second one does later."""
    await scenario.add_node()
    await scenario.add_pod(annotations={NEEDS_TWO_APPROVALS: "yes"})
    await asyncio.sleep(3)
    yield
    await scenario.add_class()
    yield


async def _activated_in_flight(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod is activated while it waits on Permit. Its rejection then is no reason to wait."""
    await scenario.add_node()
    await scenario.add_pod(annotations={REJECTED_ONCE: "yes"}, schedulingGates=GATES)
    # Otherwise the end of its nomination would requeue it.
    refused = [refusal(422, "Invalid")] * 20
    scenario.intercept(once(is_request("PATCH", f"/pods/{scenario.pod}/status"), *refused))
    yield
    await scenario.open_gate()
    yield
    scenario.intercept(None)


async def _provisioned_elsewhere(scenario: ScenarioParts) -> ScenarioSteps:
    """While a volume is provisioned for the chosen node, another client selects another node."""
    for suffix in ("", "0"):
        await scenario.add_node(suffix=suffix)
    delay = {f"{PREFIX}provision-delay": f"{_PROVISIONED_AFTER_S}s"}
    await scenario.add_claim("standard", annotations=delay)
    await scenario.add_pod(schedulingGates=GATES, **scenario.with_claim)
    yield
    await scenario.open_gate()
    await asyncio.sleep(2)
    claim = await scenario.api.get(PersistentVolumeClaim, scenario.pod, "default")
    chosen = claim.metadata.annotations.get(_SELECTED_NODE)
    if chosen:
        (other,) = {scenario.node, f"{scenario.node}0"} - {chosen}
        patch = {"metadata": {"annotations": {_SELECTED_NODE: other}}}
        await scenario.change(PersistentVolumeClaim, scenario.pod, patch)
        await asyncio.sleep(_PROVISIONED_AFTER_S)
        if await scenario.node_of(scenario.pod) == chosen:
            scenario.wrong.append("a pod was bound to a node that its claim does not select")
    yield


async def _lease_deleted(scenario: ScenarioParts) -> ScenarioSteps:
    """The leader pauses, another replica acquires its lease, and a user deletes the lease.

    The former leader resumes then, and must not create the lease.
    """
    await scenario.add_node()
    await scenario.add_pod(schedulingGates=GATES)
    yield
    before = await _holder(scenario)
    resume = scenario.faults.pause_leader()
    for _ in range(_TAKEN_OVER_WITHIN_S):
        await asyncio.sleep(1)
        if await _holder(scenario) != before:
            break
    with contextlib.suppress(ApiError):
        await scenario.api.delete(Lease, "kube-scheduler", "kube-system")
    resume()
    await scenario.open_gate()
    yield


async def _holder(scenario: ScenarioParts) -> str | None:
    with contextlib.suppress(ApiError):
        lease = await scenario.api.get(Lease, "kube-scheduler", "kube-system")
        return lease.spec.holder_identity
    return None


async def _two_preemptors(scenario: ScenarioParts) -> ScenarioSteps:
    """A node is emptied for one pod, and then for a more important one.

    The first victim terminates slowly. It must not be evicted again, and the first preemptor must
    lose its nomination.
    """
    await scenario.add_node(amounts={"cpu": "1"})
    victims = {f"{scenario.filler}{suffix}" for suffix in ("0", "1")}
    stays = {"finalizers": ["example.com/keeper"]}
    await scenario.add_filler("400m", suffix="0", **stays)
    deletions: list[str] = []

    def count(request: OutgoingRequest) -> None:
        name = request.target.partition("?")[0].rpartition("/")[2]
        if request.method == "DELETE" and name in victims:
            deletions.append(name)

    scenario.intercept(count)
    there = {"nodeName": "", "nodeSelector": scenario.labels}
    await scenario.add_filler("700m", priorityClassName="middle", **there)
    await scenario.until_nominated()
    await asyncio.sleep(2)
    # The last victim is evicted only if the others are not enough.
    await scenario.add_filler("300m", suffix="1", **stays)
    await asyncio.sleep(1)
    await scenario.add_pod("800m", priorityClassName="high")
    await asyncio.sleep(4)

    async def are_nominated() -> bool:
        pods = [
            await scenario.api.get(Pod, name, "default") for name in (scenario.filler, scenario.pod)
        ]
        return all(pod.status.nominated_node_name for pod in pods)

    if await _stays(are_nominated):
        scenario.wrong.append("a pod stays nominated to the node of a more important one")
    if len(deletions) > len(victims):
        scenario.wrong.append(f"pods were evicted again: {deletions}")
    scenario.intercept(None)
    yield
    for name in victims:
        await scenario.change(Pod, name, {"metadata": {"finalizers": None}})
    yield
    await scenario.remove_filler()
    for name in victims:
        with contextlib.suppress(ApiError):
            await scenario.api.delete(Pod, name, "default", grace_period_seconds=0)


async def _node_fills_up(scenario: ScenarioParts) -> ScenarioSteps:
    """Of two equal nodes one is emptied. The other one fills up before the next such preemptor."""
    for suffix in ("0", "1"):
        await scenario.add_node(amounts={"cpu": "1"}, suffix=suffix)
        await scenario.add_filler("500m", suffix=suffix, nodeName=scenario.node + suffix)
    await asyncio.sleep(1)
    await scenario.add_filler(
        "800m", nodeName="", nodeSelector=scenario.labels, priorityClassName="high"
    )
    await asyncio.sleep(4)
    emptied = await scenario.node_of(scenario.filler)
    if emptied:
        (left,) = {f"{scenario.node}0", f"{scenario.node}1"} - {emptied}
        await scenario.add_filler("300m", suffix="2", nodeName=left, priorityClassName="high")
        await asyncio.sleep(1)
    await scenario.add_pod(
        "800m", priorityClassName="high", schedulingGates=[] if emptied else GATES
    )
    await asyncio.sleep(2)
    pod = await scenario.api.get(Pod, scenario.pod, "default")
    if pod.status.nominated_node_name:
        scenario.wrong.append("a pod is nominated to a node that would have no room for it")
    yield
    if emptied:
        await scenario.api.delete(Pod, f"{scenario.filler}2", "default", grace_period_seconds=0)
    else:
        await scenario.open_gate()
    yield
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()


_Applies = Callable[[Plan], Any]
LATER_SCENARIOS: dict[str, tuple[Callable[[ScenarioParts], ScenarioSteps], _Applies]] = {
    "resize in progress": (_resize_in_progress, lambda _: True),
    "binding refused": (_binding_refused, lambda plan: plan.preempts),
    "devices change in a gap": (_devices_change_in_a_gap, lambda plan: plan.devices),
    "recreated unseen": (_recreated_unseen, lambda _: True),
    "two approvals": (_two_approvals, lambda plan: plan.plugin),
    "activated in flight": (_activated_in_flight, lambda plan: plan.plugin),
    "provisioned elsewhere": (_provisioned_elsewhere, lambda plan: plan.volumes),
    "two preemptors": (_two_preemptors, lambda plan: plan.preempts),
    "node fills up": (_node_fills_up, lambda plan: plan.preempts),
    "lease deleted": (_lease_deleted, lambda plan: plan.replicas > 1),
}


def later_kinds(plan: Plan) -> list[str]:
    """Return the kinds for which a plan's cluster has the features."""
    return [name for name, (_, applies) in LATER_SCENARIOS.items() if applies(plan)]
