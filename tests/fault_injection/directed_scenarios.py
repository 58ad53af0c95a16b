"""Liveness scenarios that lead to states which random plans rarely reach.

Every plan has one of them. The server's answers to single requests are chosen, so that a change
comes exactly between two steps of the scheduler. As in `liveness_scenarios.py`, each sets up,
removes the obstacle, and cleans up. What must not happen meanwhile is added to `wrong`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.foundation.client.transport import OutgoingRequest
from kubesched.foundation.util.clock import SECOND
from tests.fault_injection.contended_scenarios import ScenarioSteps
from tests.fault_injection.directed_claim_scenarios import CLAIM_SCENARIOS
from tests.fault_injection.faulty_plugin import HOLD_MODE
from tests.fault_injection.intercepted_requests import is_request, once, refusal
from tests.fault_injection.plan import Plan
from tests.fault_injection.scenario_parts import GATES, ScenarioParts
from tests.foundation.client.wire_network import Trouble

__all__ = ["DIRECTED_SCENARIOS", "directed_kinds"]

Json = dict[str, Any]
# Preemption


async def _budget(scenario: ScenarioParts) -> ScenarioSteps:
    """One of two equal pods must be evicted, and a budget protects the one that started later."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("400m", suffix="0")
    await asyncio.sleep(3)
    await scenario.add_filler("400m", labels=scenario.labels)
    await scenario.add_budget()
    await scenario.add_pod(priorityClassName="high", schedulingGates=GATES)
    await asyncio.sleep(3)
    scenario.spared = [scenario.filler]
    yield
    await scenario.open_gate()
    yield
    await scenario.remove_budget()


async def _changed_preemptor(scenario: ScenarioParts) -> ScenarioSteps:
    """While a victim gets its condition, the preemptor's labels change so that it fits no more."""
    await scenario.add_node(amounts={"cpu": "1"})
    apart = {"podAntiAffinity": scenario.alone}
    await scenario.add_filler("10m", suffix="0", affinity=apart, priorityClassName="high")
    await scenario.add_filler("800m")
    await scenario.add_pod(priorityClassName="high", schedulingGates=GATES)
    slow = Trouble(server_ns=2 * SECOND)
    scenario.intercept(once(is_request("PATCH", f"/pods/{scenario.filler}/status"), slow))
    await scenario.open_gate()
    await asyncio.sleep(1)
    await scenario.change(Pod, scenario.pod, {"metadata": {"labels": scenario.labels}})
    await asyncio.sleep(3)
    if not await scenario.has(Pod, scenario.filler):
        scenario.wrong.append("a pod was evicted for a preemptor that had changed")
    yield
    scenario.intercept(None)
    with contextlib.suppress(ApiError):
        await scenario.api.delete(Pod, f"{scenario.filler}0", "default", grace_period_seconds=0)
    yield


async def _gone_first(scenario: ScenarioParts) -> ScenarioSteps:
    """The victim is deleted while the scheduler writes its condition."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("800m")
    await scenario.add_pod(priorityClassName="high", schedulingGates=GATES)
    yield
    slow = Trouble(travel_ns=2 * SECOND)
    scenario.intercept(once(is_request("PATCH", f"/pods/{scenario.filler}/status"), slow))
    await scenario.open_gate()
    await asyncio.sleep(1)
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()
    await asyncio.sleep(3)
    scenario.intercept(None)
    yield


async def _unwritten_nomination(scenario: ScenarioParts) -> ScenarioSteps:
    """A nomination that the server refuses reserves its room, also when its pod is changed."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("500m", finalizers=["example.com/keeper"])
    await scenario.add_pod("800m", priorityClassName="high", schedulingGates=GATES)
    refused = [refusal(422, "Invalid")] * 20
    scenario.intercept(once(is_request("PATCH", f"/pods/{scenario.pod}/status"), *refused))
    yield
    await scenario.open_gate()
    await asyncio.sleep(1)
    # A change of its status requeues no pod.
    await scenario.change(Pod, scenario.pod, {"status": {"message": "seen"}}, "status")
    await asyncio.sleep(1)
    await scenario.add_filler("400m", suffix="0", nodeName="", nodeSelector=scenario.labels)
    scenario.spared = [f"{scenario.filler}0"]
    await asyncio.sleep(2)
    if await scenario.node_of(f"{scenario.filler}0"):
        scenario.wrong.append("a pod was put into the room of a nominated pod")
    scenario.intercept(None)
    await scenario.change(Pod, scenario.filler, {"metadata": {"finalizers": None}})
    yield


async def _deaf_victim(scenario: ScenarioParts) -> ScenarioSteps:
    """A plugin ends PreBind successfully although its pod is preempted."""
    await scenario.add_node(amounts={"cpu": "1"})
    held = {"nodeName": "", "nodeSelector": scenario.labels, "annotations": {HOLD_MODE: "deaf"}}
    await scenario.add_filler("800m", **held)
    await scenario.until_nominated()
    await scenario.add_pod(priorityClassName="high", schedulingGates=GATES)
    yield
    await scenario.open_gate()
    await asyncio.sleep(3)
    if await scenario.node_of(scenario.filler):
        scenario.wrong.append("a pod was bound after it had been preempted")
    yield
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()


async def _changed_while_held(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod is changed while it waits on Permit, which refuses the pod as it was."""
    await scenario.add_node()
    await scenario.add_pod(annotations={HOLD_MODE: "until changed"}, schedulingGates=GATES)
    yield
    await scenario.open_gate()
    await asyncio.sleep(2)
    await scenario.change(Pod, scenario.pod, {"metadata": {"labels": {"changed": "yes"}}})
    yield


async def _event_while_held(scenario: ScenarioParts) -> ScenarioSteps:
    """The only event that helps comes while a pod waits on Permit, which then refuses it.

    Two other pods are tried after the event, and one of them has ended when the pod is refused.
    """
    await scenario.add_node()
    await scenario.add_pod(annotations={HOLD_MODE: "until changed"}, schedulingGates=GATES)
    yield
    await scenario.open_gate()
    await asyncio.sleep(1)
    # The plugin has not registered changes of pods.
    await scenario.change(Pod, scenario.pod, {"metadata": {"labels": {"changed": "yes"}}})
    await scenario.add_class()
    await asyncio.sleep(1)
    there = {"nodeName": "", "nodeSelector": scenario.labels}
    await scenario.add_filler(annotations={HOLD_MODE: "long permit"}, **there)
    await asyncio.sleep(0.5)
    await scenario.add_filler(suffix="0", **there)
    yield
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()


# Bindings and lists


async def _resized_while_binding(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod is resized while its binding is in flight; the larger amount must count."""
    await scenario.add_node(amounts={"cpu": "1"})
    slow = Trouble(travel_ns=2 * SECOND)
    scenario.intercept(once(is_request("POST", f"/pods/{scenario.filler}/binding"), slow))
    await scenario.add_filler("300m", nodeName="", nodeSelector=scenario.labels)
    await asyncio.sleep(1)
    larger = {"name": "c", "resources": {"requests": {"cpu": "700m"}}}
    await scenario.api.patch(
        Pod,
        scenario.filler,
        "default",
        {"spec": {"containers": [larger]}},
        patch_type="strategic",
        subresource="resize",
    )
    await asyncio.sleep(3)
    scenario.intercept(None)
    await scenario.add_pod()
    yield
    await scenario.remove_filler()
    yield


async def _expired_list(scenario: ScenarioParts) -> ScenarioSteps:
    """A list in pages expires after the page with a pod that is deleted then.

    The server is an old one that cannot send lists as watches.
    """
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("800m")
    for number in range(4):
        await scenario.add_filler("10m", suffix=str(number))
    await scenario.add_pod()
    yield
    names = sorted(pod.metadata.name for pod in (await scenario.api.list(Pod)).items)
    pages_before = names.index(scenario.filler) // scenario.page_size + 1
    seen = 0

    def trouble(request: OutgoingRequest) -> Trouble | None:
        nonlocal seen
        if "sendInitialEvents" in request.target:
            return refusal(400, "BadRequest")
        if "continue=" in request.target and "/pods?" in request.target:
            seen += 1
            if seen == pages_before:
                scenario.remove_filler_now()
                return refusal(410, "Expired")
        return None

    scenario.intercept(trouble)
    scenario.faults.forget_history()
    await asyncio.sleep(5)
    scenario.intercept(None)
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()
    yield


async def _relabelled_while_binding(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod's labels change to match another pod's anti-affinity, during its binding."""
    await scenario.add_node()
    slow = Trouble(travel_ns=2 * SECOND)
    scenario.intercept(once(is_request("POST", f"/pods/{scenario.filler}/binding"), slow))
    await scenario.add_filler(nodeName="", nodeSelector=scenario.labels)
    await asyncio.sleep(1)
    await scenario.change(Pod, scenario.filler, {"metadata": {"labels": scenario.labels}})
    await asyncio.sleep(3)
    scenario.intercept(None)
    await scenario.add_pod(affinity={"podAntiAffinity": scenario.alone})
    yield
    await scenario.remove_filler()
    yield


_Applies = Callable[[Plan], Any]
DIRECTED_SCENARIOS: dict[str, tuple[Callable[[ScenarioParts], ScenarioSteps], _Applies]] = {
    **CLAIM_SCENARIOS,
    "budget": (_budget, lambda plan: plan.preempts),
    "changed preemptor": (_changed_preemptor, lambda plan: plan.preempts),
    "gone first": (_gone_first, lambda plan: plan.preempts),
    "unwritten nomination": (_unwritten_nomination, lambda plan: plan.preempts),
    "deaf victim": (_deaf_victim, lambda plan: plan.preempts and plan.plugin),
    "changed while held": (
        _changed_while_held,
        lambda plan: plan.plugin not in ("", "declines"),
    ),
    "event while held": (_event_while_held, lambda plan: plan.plugin == "declines"),
    "resized while binding": (_resized_while_binding, lambda _: True),
    "relabelled while binding": (_relabelled_while_binding, lambda _: True),
    "expired list": (_expired_list, lambda _: True),
}
_RARE = ("shared by a gang", "claim released", "deaf victim")


def directed_kinds(plan: Plan) -> list[str]:
    """Return the kinds for which a plan's cluster has the features, rare ones repeatedly."""
    kinds = [name for name, (_, applies) in DIRECTED_SCENARIOS.items() if applies(plan)]
    rare = [name for name in _RARE if name in kinds]
    return kinds + rare * (len(kinds) // 3)
