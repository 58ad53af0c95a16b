"""Liveness scenarios with plugins, extenders and preemption.

As in `liveness_scenarios.py`, each sets up, removes the obstacle, and cleans up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from kubesched.api import Node, Pod
from kubesched.api.access import ApiError
from tests.fault_injection.faulty_extender import SLOW_ANSWER
from tests.fault_injection.faulty_plugin import APPROVAL_CLASS, HOLD_MODE
from tests.fault_injection.generated_objects import FOO
from tests.fault_injection.scenario_parts import ASKS_EXTENDER, GATES, ScenarioParts

__all__ = ["EXTENDER_SCENARIOS", "PLUGIN_SCENARIOS", "PREEMPTION_SCENARIOS", "ScenarioSteps"]

Json = dict[str, Any]
ScenarioSteps = AsyncIterator[None]


# Plugins and extenders


async def _approval(scenario: ScenarioParts) -> ScenarioSteps:
    """A plugin holds the pod on Permit until a timeout, and the missing class may come meanwhile.

    Other events come as well. They must neither requeue the pod nor hide the right event.
    """
    await scenario.add_node()
    await scenario.add_pod(annotations={APPROVAL_CLASS: scenario.pod})
    yield
    if scenario.rng.random() < 0.5:
        await scenario.change(Node, scenario.node, {"metadata": {"labels": {"noise": "before"}}})
    await scenario.add_class()
    await scenario.change(Node, scenario.node, {"metadata": {"labels": {"noise": "after"}}})
    yield


async def _held(scenario: ScenarioParts) -> ScenarioSteps:
    """Another pod reserves the room, and releases it before it is bound."""
    way = scenario.rng.choice(["fails", "refused", "permit"])
    is_deleted = scenario.rng.random() < 0.4
    # Otherwise the end of the nomination would requeue the pod, whatever happens to the room.
    scenario.refuse("PATCH", scenario.rng.choice([0, 4]))
    await scenario.add_node(amounts={"cpu": "1"})
    held = {"nodeName": "", "nodeSelector": scenario.labels, "annotations": {HOLD_MODE: way}}
    await scenario.add_filler("800m", **held)
    await scenario.until_nominated()
    await scenario.add_pod()
    yield
    if is_deleted:
        await scenario.remove_filler()
    elif way != "permit":  # a pod on Permit loses its node after a timeout
        await scenario.add_class(scenario.filler)
    scenario.refuse("PATCH", 0)
    yield
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()


async def _bound_in_vain(scenario: ScenarioParts) -> ScenarioSteps:
    """Another pod reserves the room, its binding fails, and it is deleted before its retry."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_pod(schedulingGates=GATES)
    yield
    scenario.refuse("POST", 1)
    await scenario.add_filler("800m", nodeName="", nodeSelector=scenario.labels)
    await asyncio.sleep(0.3)
    await scenario.open_gate()
    await asyncio.sleep(2)
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()
    scenario.refuse("POST", 0)
    yield


async def _second_thoughts(scenario: ScenarioParts) -> ScenarioSteps:
    """During a call to an extender the pod's labels change, and anti-affinity matches it."""
    await scenario.add_node(amounts={FOO: "100"})
    await scenario.add_filler(affinity={"podAntiAffinity": scenario.alone})
    await scenario.add_pod(annotations={SLOW_ANSWER: "yes"}, container=dict(ASKS_EXTENDER))
    await asyncio.sleep(scenario.rng.choice([0.5, 1.5]))
    await scenario.change(Pod, scenario.pod, {"metadata": {"labels": scenario.labels}})
    yield
    await scenario.remove_filler()
    yield


async def _made_anew(scenario: ScenarioParts) -> ScenarioSteps:
    """During a call to an extender the pod is deleted, and another pod is created with its name."""
    spec: Json = {"annotations": {SLOW_ANSWER: "yes"}, "container": dict(ASKS_EXTENDER)}
    await scenario.add_node(amounts={FOO: "100"})
    await scenario.add_pod(schedulingGates=GATES, **spec)
    yield
    await scenario.open_gate()
    await asyncio.sleep(scenario.rng.choice([0.5, 1.5]))
    await scenario.api.delete(Pod, scenario.pod, "default", grace_period_seconds=0)
    await asyncio.sleep(scenario.rng.choice([0.0, 0.3, 3.0]))
    spec = {"annotations": {SLOW_ANSWER: "yes"}, "container": dict(ASKS_EXTENDER)}
    await scenario.add_pod(**spec)
    yield


# Preemption


async def _makes_room(scenario: ScenarioParts) -> ScenarioSteps:
    """Less important pods are evicted; in some cases the server refuses that at first."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("400m")
    await scenario.add_filler("400m", suffix="0")
    if scenario.rng.random() < 0.5:
        await scenario.add_filler("100m", suffix="1")
        scenario.spared = [f"{scenario.filler}1"]  # there is room for this pod
    await scenario.add_pod("900m", priorityClassName="high", schedulingGates=GATES)
    yield
    scenario.refuse("DELETE", scenario.rng.choice([0, 1, 2, 3]))
    await scenario.open_gate()
    yield
    scenario.refuse("DELETE", 0)


async def _patient(scenario: ScenarioParts) -> ScenarioSteps:
    """A victim terminates slowly, an event comes, and no other pod may be evicted."""
    slowly = {"terminationGracePeriodSeconds": 5}
    for suffix in ("", "0"):
        await scenario.add_node(amounts={"cpu": "1"}, suffix=suffix)
        name = scenario.node + suffix
        await scenario.add_filler("800m", suffix=suffix, nodeName=name, **slowly)
        scenario.spared.append(scenario.filler + suffix)
    scenario.victims = 1
    await scenario.add_pod(priorityClassName="high", schedulingGates=GATES)
    yield
    await scenario.open_gate()
    await asyncio.sleep(scenario.rng.choice([1.0, 2.5]))
    await scenario.allow(cpu="1100m")
    yield


async def _usurped(scenario: ScenarioParts) -> ScenarioSteps:
    """A pod of the same priority is replaced by one of a lower priority."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("800m", priorityClassName="high")
    await scenario.add_pod(priorityClassName="high")
    yield
    await scenario.remove_filler()
    await scenario.add_filler("800m", suffix="0")
    yield


async def _ousted(scenario: ScenarioParts) -> ScenarioSteps:
    """The pod on the node is less important and not bound yet, so no request is needed."""
    await scenario.add_node(amounts={"cpu": "1"})
    way = scenario.rng.choice(["refused", "long permit"])
    held = {"nodeName": "", "nodeSelector": scenario.labels, "annotations": {HOLD_MODE: way}}
    await scenario.add_filler("800m", **held)
    await scenario.add_pod(priorityClassName="high", schedulingGates=GATES)
    yield
    await scenario.open_gate()
    yield
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()


async def _crowd(scenario: ScenarioParts) -> ScenarioSteps:
    """Many pods could be evicted, and one eviction suffices: the larger pod of any node."""
    for suffix in "01234":
        await scenario.add_node(amounts={"cpu": "1"}, suffix=suffix)
        for number, cpu in enumerate(("400m", "500m")):
            name = f"{suffix}{number}"
            await scenario.add_filler(cpu, suffix=name, nodeName=scenario.node + suffix)
            scenario.spared.append(scenario.filler + name)
    scenario.victims = 1
    await scenario.add_pod("600m", priorityClassName="high", schedulingGates=GATES)
    yield
    await scenario.open_gate()
    yield


PLUGIN_SCENARIOS: dict[str, Callable[[ScenarioParts], ScenarioSteps]] = {
    "approval": _approval,
    "bound in vain": _bound_in_vain,
    "held": _held,
    "ousted": _ousted,
}
EXTENDER_SCENARIOS: dict[str, Callable[[ScenarioParts], ScenarioSteps]] = {
    "second thoughts": _second_thoughts,
    "made anew": _made_anew,
}
PREEMPTION_SCENARIOS: dict[str, Callable[[ScenarioParts], ScenarioSteps]] = {
    "makes room": _makes_room,
    "usurped": _usurped,
    "patient": _patient,
    "crowd": _crowd,
}
