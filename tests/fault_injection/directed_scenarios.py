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

from kubesched.api import PersistentVolume, Pod, ResourceClaim
from kubesched.api.access import ApiError
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from kubesched.foundation.util.clock import SECOND
from tests.fault_injection.contended_scenarios import ScenarioSteps
from tests.fault_injection.faulty_plugin import HOLD_MODE
from tests.fault_injection.plan import Plan
from tests.fault_injection.scenario_parts import GATES, ScenarioParts
from tests.foundation.client.wire_network import Trouble

__all__ = ["DIRECTED_SCENARIOS", "directed_kinds"]

Json = dict[str, Any]
_REFUSED = b'{"kind":"Status","status":"Failure","code":%d,"reason":"%s","message":"injected"}'


def _refusal(code: int, reason: str) -> Trouble:
    return Trouble(answer=ServerResponse(code, _REFUSED % (code, reason.encode()), {}))


def _once(
    matches: Callable[[OutgoingRequest], bool], *troubles: Trouble
) -> Callable[[OutgoingRequest], Trouble | None]:
    """Cause these troubles for the first requests that match, one after the other."""
    left = list(troubles)

    def intercepted(request: OutgoingRequest) -> Trouble | None:
        return left.pop(0) if left and matches(request) else None

    return intercepted


def _is(method: str, path: str) -> Callable[[OutgoingRequest], bool]:
    def matches(request: OutgoingRequest) -> bool:
        return request.method == method and request.target.partition("?")[0].endswith(path)

    return matches


# Preemption


async def _budget(scenario: ScenarioParts) -> ScenarioSteps:
    """One of two equal pods must go, and a budget protects the one that started later."""
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
    """While a victim gets its condition, the preemptor is relabelled and fits there no more."""
    await scenario.add_node(amounts={"cpu": "1"})
    apart = {"podAntiAffinity": scenario.alone}
    await scenario.add_filler("10m", suffix="0", affinity=apart, priorityClassName="high")
    await scenario.add_filler("800m")
    await scenario.add_pod(priorityClassName="high", schedulingGates=GATES)
    slow = Trouble(server_ns=2 * SECOND)
    scenario.intercept(_once(_is("PATCH", f"/pods/{scenario.filler}/status"), slow))
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
    scenario.intercept(_once(_is("PATCH", f"/pods/{scenario.filler}/status"), slow))
    await scenario.open_gate()
    await asyncio.sleep(1)
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()
    await asyncio.sleep(3)
    scenario.intercept(None)
    yield


async def _unwritten_nomination(scenario: ScenarioParts) -> ScenarioSteps:
    """A nomination that the server refuses holds its room, also when its pod is changed."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("500m", finalizers=["example.com/keeper"])
    await scenario.add_pod("800m", priorityClassName="high", schedulingGates=GATES)
    refused = [_refusal(422, "Invalid")] * 20
    scenario.intercept(_once(_is("PATCH", f"/pods/{scenario.pod}/status"), *refused))
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
    """A plugin ends PreBind as if nothing had happened when its pod is preempted."""
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

    Two others are tried after the event, and one of them has ended when the pod is refused.
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


# Volumes


async def _two_volumes(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod needs two volumes of its node, and there is one."""
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

    The volume changes in between, so that the second may have it. The first gets its own later.
    """
    await scenario.add_node()
    await scenario.add_volume()
    await scenario.add_claim()
    await scenario.add_claim(suffix="0")
    slow = Trouble(travel_ns=3 * SECOND)
    volume = f"disk-{scenario.node}"
    scenario.intercept(_once(_is("PUT", f"/persistentvolumes/{volume}"), slow, slow))
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


# Devices


async def _allocated_elsewhere(scenario: ScenarioParts) -> ScenarioSteps:
    """Another client allocates the claim while the scheduler's write is on its way."""
    await scenario.add_node(annotations=scenario.devices(2))
    await scenario.add_device_claim()
    await scenario.add_pod(
        schedulingGates=GATES, **scenario.with_device(resourceClaimName=scenario.pod)
    )
    yield
    is_allocated = _is("PUT", f"/resourceclaims/{scenario.pod}/status")
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

    Nobody can read the claim meanwhile. Another pod waits for the device.
    """
    await scenario.add_node(annotations=scenario.devices(1))
    await scenario.add_device_claim(scenario.filler)
    await scenario.add_device_claim()
    path, is_over = f"/resourceclaims/{scenario.filler}", False

    def trouble(request: OutgoingRequest) -> Trouble | None:
        if is_over or path not in request.target:
            return None
        if request.method == "GET":
            return _refusal(500, "InternalError")
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
    """The binding of a pod fails after its claim was written, and it never gets a node again."""
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
    status = f"/resourceclaims/{scenario.filler}/status"
    slow = Trouble(server_ns=5 * SECOND)
    scenario.intercept(_once(_is("PUT", status), _refusal(422, "Invalid"), slow))
    for suffix in ("", "0"):
        await scenario.add_filler(
            suffix=suffix,
            nodeName="",
            nodeSelector=scenario.labels,
            **scenario.in_group,
            **scenario.with_device(resourceClaimName=scenario.filler),
        )
    # A gang that has no node yet, because another leader takes over, does not hold the device.
    gates = [] if await scenario.until_nominated() else GATES
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


# Bindings and lists


async def _resized_while_binding(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod is resized while its binding is on its way; the larger amount must count."""
    await scenario.add_node(amounts={"cpu": "1"})
    slow = Trouble(travel_ns=2 * SECOND)
    scenario.intercept(_once(_is("POST", f"/pods/{scenario.filler}/binding"), slow))
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
            return _refusal(400, "BadRequest")
        if "continue=" in request.target and "/pods?" in request.target:
            seen += 1
            if seen == pages_before:
                scenario.remove_filler_now()
                return _refusal(410, "Expired")
        return None

    scenario.intercept(trouble)
    scenario.forget_history()
    await asyncio.sleep(5)
    scenario.intercept(None)
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()
    yield


async def _relabelled_while_binding(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod gets the label that another one stays away from, while its binding is on its way."""
    await scenario.add_node()
    slow = Trouble(travel_ns=2 * SECOND)
    scenario.intercept(_once(_is("POST", f"/pods/{scenario.filler}/binding"), slow))
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
    "two volumes": (_two_volumes, lambda plan: plan.volumes),
    "volume changes hands": (_volume_changes_hands, lambda plan: plan.volumes),
    "allocated elsewhere": (_allocated_elsewhere, lambda plan: plan.devices),
    "late write": (_late_write, lambda plan: plan.devices),
    "claim released": (_claim_released, lambda plan: plan.devices and plan.plugin),
    "duplicate claim": (_duplicate_claim, lambda plan: plan.devices),
    "shared by a gang": (_shared_by_a_gang, lambda plan: plan.devices and plan.groups),
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
