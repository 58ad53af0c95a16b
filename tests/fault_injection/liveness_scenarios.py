"""Liveness scenarios: an obstacle keeps one pod waiting, and one change must let it be placed.

While faults are injected, many events come, and each may requeue a pod that an earlier one should
have requeued. Scenarios run in the quiet phase: a pod, a node of its own, and an obstacle. A user
removes the obstacle, and nothing else happens. Each scenario is a generator with three steps: it
sets up, removes the obstacle, and cleans up.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

from kubesched.api import Node, Pod, ResourceClaim, ResourceClaimTemplate
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver import LocalApi
from tests.fault_injection.contended_scenarios import (
    EXTENDER_SCENARIOS,
    PLUGIN_SCENARIOS,
    PREEMPTION_SCENARIOS,
    ScenarioSteps,
)
from tests.fault_injection.directed_scenarios import DIRECTED_SCENARIOS
from tests.fault_injection.generated_objects import DRIVER, SERVED
from tests.fault_injection.later_scenarios import LATER_SCENARIOS
from tests.fault_injection.plan import Plan
from tests.fault_injection.scenario_parts import (
    CLOSED,
    GATES,
    ONE_DEVICE,
    ScenarioFaults,
    ScenarioParts,
)

__all__ = ["LivenessScenario", "scenario_kinds"]

Json = dict[str, Any]


class LivenessScenario(ScenarioParts):
    """One scenario: `pod` must be bound after the second step of `steps`."""

    def __init__(
        self,
        kind: str,
        api: LocalApi,
        number: int,
        rng: random.Random,
        faults: ScenarioFaults,
    ) -> None:
        super().__init__(api, number, rng, faults)
        self.kind = kind
        # Whether the process has state that another leader would not have.
        self.needs_one_leader = kind in _OF_ONE_LEADER
        # Whether the pod is tried at once, and gets a condition.
        self.gets_condition = kind in _SIMPLE
        self.steps: ScenarioSteps = _KINDS[kind](self)


# Nodes


async def _label(scenario: LivenessScenario) -> ScenarioSteps:
    """In some cases the server refuses the condition, and the scheduler must retry."""
    scenario.refuse("PATCH", scenario.rng.choice([0, 1, 2]))
    await scenario.add_node(labels={})
    await scenario.add_pod()
    yield
    scenario.refuse("PATCH", 0)
    await scenario.change(Node, scenario.node, {"metadata": {"labels": scenario.labels}})
    yield


async def _new_node(scenario: LivenessScenario) -> ScenarioSteps:
    scenario.refuse("PATCH", scenario.rng.choice([0, 1, 2]))
    await scenario.add_pod()
    yield
    scenario.refuse("PATCH", 0)
    await scenario.add_node()
    yield


async def _taint(scenario: LivenessScenario) -> ScenarioSteps:
    """Only taints keep the pod from any node, so that no other event can requeue it."""
    await scenario.add_node(taints=[CLOSED])
    await scenario.close_others()
    await scenario.add_pod(nodeSelector={})
    yield
    await scenario.open()
    yield
    await scenario.open_others()


async def _cordon(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node(unschedulable=True)
    await scenario.close_others()
    await scenario.add_pod(nodeSelector={})
    yield
    await scenario.change(Node, scenario.node, {"spec": {"unschedulable": None}})
    yield
    await scenario.open_others()


async def _toleration(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node()
    await scenario.add_pod(tolerations=[])
    yield
    # An update may only add tolerations, and the server itself has added some.
    pod = await scenario.api.get(Pod, scenario.pod, "default")
    there = [
        {
            "key": each.key,
            "operator": each.operator,
            "effect": each.effect,
            "tolerationSeconds": each.toleration_seconds,
        }
        for each in pod.spec.tolerations
    ]
    added = {"key": "scenario", "operator": "Exists"}
    patch: Json = {"spec": {"tolerations": [*there, added]}}
    if scenario.rng.random() < 0.5:
        patch["metadata"] = {"labels": {"tolerates": "more"}}  # one update with two kinds of change
    await scenario.change(Pod, scenario.pod, patch)
    yield


async def _more_room(scenario: LivenessScenario) -> ScenarioSteps:
    """A thousandth of a CPU, or one byte, is missing."""
    is_memory = scenario.rng.random() < 0.4
    lacking = {"memory": f"{(1 << 30) - 1}"} if is_memory else {"cpu": "499m"}
    await scenario.add_node(amounts=lacking)
    requests = {"cpu": "500m", "memory": "1Gi"}
    await scenario.add_pod(container={"resources": {"requests": requests}})
    yield
    await scenario.allow(**({"memory": "1Gi"} if is_memory else {"cpu": "500m"}))
    yield


async def _more_pods(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node(amounts={"pods": "1"})
    await scenario.add_filler()
    await scenario.add_pod()
    yield
    if scenario.rng.random() < 0.5:
        await scenario.allow(pods="2")
    else:
        await scenario.remove_filler()
    yield


# Pods


async def _room_given_back(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("600m")
    await scenario.add_pod()
    yield
    await scenario.remove_filler()
    yield


async def _work_done(scenario: LivenessScenario) -> ScenarioSteps:
    """A pod that completes releases its room."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("600m")
    await scenario.add_pod()
    yield
    await scenario.change(Pod, scenario.filler, {"status": {"phase": "Succeeded"}}, "status")
    yield


async def _port(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node()
    ports = {"ports": [{"containerPort": 8000, "hostPort": 8000}]}
    await scenario.add_filler(container=dict(ports))
    await scenario.add_pod(container=dict(ports))
    yield
    await scenario.remove_filler()
    yield


async def _apart(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node()
    await scenario.add_filler(labels=scenario.labels)
    await scenario.add_pod(affinity={"podAntiAffinity": scenario.alone})
    yield
    if scenario.rng.random() < 0.5:
        await scenario.remove_filler()
    else:
        await scenario.change(Pod, scenario.filler, {"metadata": {"labels": {"scenario": "other"}}})
    yield


async def _kept_apart(scenario: LivenessScenario) -> ScenarioSteps:
    """The other pod has the anti-affinity."""
    await scenario.add_node()
    await scenario.add_filler(affinity={"podAntiAffinity": scenario.alone})
    await scenario.add_pod(labels=scenario.labels)
    yield
    if scenario.rng.random() < 0.5:
        await scenario.remove_filler()
    else:
        await scenario.change(Pod, scenario.pod, {"metadata": {"labels": {"scenario": "other"}}})
    yield


async def _near(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node()
    is_relabelled = scenario.rng.random() < 0.5
    if is_relabelled:
        await scenario.add_filler()
    await scenario.add_pod(affinity={"podAffinity": scenario.alone})
    yield
    if is_relabelled:
        await scenario.change(Pod, scenario.filler, {"metadata": {"labels": scenario.labels}})
    else:
        await scenario.add_filler(labels=scenario.labels)
    yield


async def _spread(scenario: LivenessScenario) -> ScenarioSteps:
    """One of two racks has a pod, and the other one is cordoned."""
    await scenario.add_node(labels={**scenario.labels, "rack": "1"})
    await scenario.add_node(labels={**scenario.labels, "rack": "2"}, suffix="0", unschedulable=True)
    await scenario.add_filler(labels=scenario.labels)
    constraint = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": scenario.labels},
    }
    await scenario.add_pod(labels=scenario.labels, topologySpreadConstraints=[constraint])
    yield
    way = scenario.rng.randrange(5)
    if way == 0:
        await scenario.remove_filler()
    elif way == 1:
        await scenario.add_filler(labels=scenario.labels, suffix="0", nodeName=f"{scenario.node}0")
    elif way == 2:
        await scenario.api.delete(Node, f"{scenario.node}0")
    elif way == 3:
        await scenario.change(Pod, scenario.filler, {"metadata": {"labels": {"scenario": "other"}}})
    else:
        await scenario.change(Node, f"{scenario.node}0", {"metadata": {"labels": {"rack": "1"}}})
    yield


async def _nearby_rack(scenario: LivenessScenario) -> ScenarioSteps:
    """The only node that the pod selects moves to the rack with the pods of its affinity."""
    await scenario.add_node(labels={**scenario.labels, "role": "mine"})
    await scenario.add_node(labels={**scenario.labels, "rack": "1"}, suffix="0")
    await scenario.add_filler(labels=scenario.labels, nodeName=f"{scenario.node}0")
    selector = {"matchLabels": scenario.labels}
    term = {"topologyKey": "rack", "labelSelector": selector}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await scenario.add_pod(affinity=affinity, nodeSelector={**scenario.labels, "role": "mine"})
    yield
    await scenario.change(Node, scenario.node, {"metadata": {"labels": {"rack": "1"}}})
    yield


async def _nominated(scenario: LivenessScenario) -> ScenarioSteps:
    """Another pod is nominated to the node and cannot be placed."""
    await scenario.add_node(amounts={"cpu": "1"})
    await scenario.add_filler("800m", nodeName="", schedulingGates=GATES)
    # As in the reference, a nomination does not count if the pod is gated when the informer first
    # lists it. A watch that a fault broke may take long to be restored.
    await asyncio.sleep(40)
    nominated = {"status": {"nominatedNodeName": scenario.node}}
    await scenario.change(Pod, scenario.filler, nominated, "status")
    await asyncio.sleep(1)
    await scenario.add_pod()
    yield
    if scenario.rng.random() < 0.5:
        await scenario.remove_filler()
    else:
        nominated = {"status": {"nominatedNodeName": None}}
        await scenario.change(Pod, scenario.filler, nominated, "status")
    yield
    with contextlib.suppress(ApiError):
        await scenario.remove_filler()


async def _gate(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node()
    await scenario.add_pod(schedulingGates=GATES)
    yield
    await scenario.open_gate()
    yield


async def _leaving(scenario: LivenessScenario) -> ScenarioSteps:
    """Two pods wait for a node, and one of them is terminating: a finalizer keeps it."""
    keeper = {"finalizers": ["example.com/keeper"], "nodeSelector": scenario.labels}
    await scenario.add_filler(nodeName="", **keeper)
    await scenario.add_pod()
    await asyncio.sleep(scenario.rng.choice([0.0, 0.5]))
    await scenario.remove_filler()
    yield
    await scenario.add_node()
    yield
    await scenario.change(Pod, scenario.filler, {"metadata": {"finalizers": None}})


# Volumes


async def _new_volume(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node()
    await scenario.add_claim()
    await scenario.add_pod(**scenario.with_claim)
    yield
    await scenario.add_volume()
    yield


async def _new_claim(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node()
    await scenario.add_volume()
    await scenario.add_pod(**scenario.with_claim)
    yield
    await scenario.add_claim()
    yield


async def _new_class(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node()
    await scenario.add_claim(scenario.pod)
    await scenario.add_pod(**scenario.with_claim)
    yield
    await scenario.add_class()
    yield


async def _one_pod_only(scenario: LivenessScenario) -> ScenarioSteps:
    """Another pod uses a claim that only one pod may use."""
    mode = "ReadWriteOncePod"
    await scenario.add_node()
    await scenario.add_volume(mode)
    await scenario.add_claim(mode=mode)
    await scenario.add_filler(**scenario.with_claim)
    await scenario.add_pod(**scenario.with_claim)
    yield
    await scenario.remove_filler()
    yield


# Devices


async def _new_devices(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node()
    await scenario.add_device_claim()
    await scenario.add_pod(**scenario.with_device(resourceClaimName=scenario.pod))
    yield
    await scenario.change(Node, scenario.node, {"metadata": {"annotations": ONE_DEVICE}})
    yield


async def _new_device_claim(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node(annotations=ONE_DEVICE)
    await scenario.add_pod(**scenario.with_device(resourceClaimName=scenario.pod))
    yield
    await scenario.add_device_claim()
    yield


async def _new_template(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node(annotations=ONE_DEVICE)
    await scenario.add_pod(**scenario.with_device(resourceClaimTemplateName=scenario.pod))
    yield
    requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
    spec = {"spec": {"devices": {"requests": requests}}}
    document = {"metadata": {"name": scenario.pod}, "spec": spec}
    await scenario.api.create_document(ResourceClaimTemplate, "default", document)
    yield


async def _device_given_back(scenario: LivenessScenario) -> ScenarioSteps:
    """The only device is allocated to another claim, which is deleted."""
    await scenario.add_node(annotations=ONE_DEVICE)
    requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
    held = {"metadata": {"name": scenario.filler}, "spec": {"devices": {"requests": requests}}}
    await scenario.api.create_document(ResourceClaim, "default", held)
    result = {"request": "gpu", "driver": DRIVER, "pool": scenario.node, "device": "gpu-0"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    await scenario.change(ResourceClaim, scenario.filler, status, "status")
    await scenario.add_device_claim()
    await scenario.add_pod(**scenario.with_device(resourceClaimName=scenario.pod))
    yield
    await scenario.api.delete(ResourceClaim, scenario.filler, "default")
    yield


async def _served_by_devices(scenario: LivenessScenario) -> ScenarioSteps:
    """No node has the extended resource until a device class serves it."""
    await scenario.add_node(annotations=ONE_DEVICE)
    name = f"{SERVED}{scenario.pod}"
    amounts = {"requests": {name: "1"}, "limits": {name: "1"}}
    await scenario.add_pod(container={"resources": amounts})
    yield
    await scenario.add_device_class(name)
    yield


# Groups


async def _new_member(scenario: LivenessScenario) -> ScenarioSteps:
    """A gang of two has one pod."""
    await scenario.add_node()
    await scenario.add_group(2)
    await scenario.add_pod(**scenario.in_group)
    yield
    await scenario.add_filler(nodeName="", **scenario.in_group)
    yield


async def _new_group(scenario: LivenessScenario) -> ScenarioSteps:
    await scenario.add_node()
    await scenario.add_pod(**scenario.in_group)
    yield
    await scenario.add_group(1)
    yield


async def _room_for_all(scenario: LivenessScenario) -> ScenarioSteps:
    """There is room for one pod of a gang of two."""
    await scenario.add_node(amounts={"cpu": "800m"})
    await scenario.add_group(2)
    await scenario.add_filler(
        "500m", nodeName="", nodeSelector=scenario.labels, **scenario.in_group
    )
    await scenario.add_pod(**scenario.in_group)
    yield
    await scenario.allow(cpu="2")
    yield


_ALWAYS: dict[str, Callable[[LivenessScenario], ScenarioSteps]] = {
    "label": _label,
    "new node": _new_node,
    "taint": _taint,
    "cordon": _cordon,
    "toleration": _toleration,
    "more room": _more_room,
    "more pods": _more_pods,
    "room given back": _room_given_back,
    "work done": _work_done,
    "port": _port,
    "apart": _apart,
    "kept apart": _kept_apart,
    "near": _near,
    "spread": _spread,
    "nearby rack": _nearby_rack,
    "gate": _gate,
    "promised": _nominated,
    "leaving": _leaving,
}
_OF_VOLUMES: dict[str, Callable[[LivenessScenario], ScenarioSteps]] = {
    "new volume": _new_volume,
    "new claim": _new_claim,
    "new class": _new_class,
    "one pod only": _one_pod_only,
}
_OF_DEVICES: dict[str, Callable[[LivenessScenario], ScenarioSteps]] = {
    "new devices": _new_devices,
    "new device claim": _new_device_claim,
    "new template": _new_template,
    "device given back": _device_given_back,
    "served by devices": _served_by_devices,
}
_OF_GROUPS: dict[str, Callable[[LivenessScenario], ScenarioSteps]] = {
    "new member": _new_member,
    "new group": _new_group,
    "room for all": _room_for_all,
}
_KINDS = {
    **_ALWAYS,
    **_OF_VOLUMES,
    **_OF_DEVICES,
    **_OF_GROUPS,
    **PLUGIN_SCENARIOS,
    **EXTENDER_SCENARIOS,
    **PREEMPTION_SCENARIOS,
    **{name: steps for name, (steps, _) in DIRECTED_SCENARIOS.items()},
    **{name: steps for name, (steps, _) in LATER_SCENARIOS.items()},
}
_OF_ONE_LEADER = (
    "promised",
    *PLUGIN_SCENARIOS,
    *EXTENDER_SCENARIOS,
    *PREEMPTION_SCENARIOS,
    *DIRECTED_SCENARIOS,
    *LATER_SCENARIOS,
)
_SIMPLE = (
    *("label", "new node", "taint", "cordon", "toleration", "more room", "more pods", "port"),
    *("room given back", "work done", "apart", "kept apart", "near", "spread", "promised"),
    "nearby rack",
    *("new volume", "new claim", "new class", "one pod only", "two volumes"),
)


def scenario_kinds(plan: Plan) -> list[str]:
    """Return the kinds for which a plan's cluster has the features, some of them repeatedly."""
    kinds = [*_ALWAYS]
    if plan.volumes:
        kinds += [*_OF_VOLUMES] * 3
    if plan.devices:
        kinds += [*_OF_DEVICES] * 3
    if plan.groups:
        kinds += [*_OF_GROUPS] * 5
    if plan.extender:
        kinds += [*EXTENDER_SCENARIOS] * 6
    if plan.preempts:
        kinds += [*PREEMPTION_SCENARIOS] * 2
    kinds += ["held"] * 3 if plan.plugin else ["bound in vain"] * 2
    if plan.plugin and plan.preempts:
        kinds += ["ousted"] * 2
    if plan.plugin == "declines":
        kinds += ["approval"] * 20
    return kinds
