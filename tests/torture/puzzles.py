"""What keeps one pod waiting, and the one change after which it must be placed.

Storms are full of events, and each may wake a pod that an earlier one should have woken. A puzzle
is posed when the weather is calm: a pod, a node for it alone, and an obstacle. Then a user removes
the obstacle, and nothing else happens. Each is a generator: it poses, solves, and cleans up.
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
from tests.torture.cluster_plan import Plan
from tests.torture.contests import OF_EXTENDERS, OF_PLUGINS, OF_PREEMPTION, Steps
from tests.torture.objects import DRIVER, SERVED
from tests.torture.puzzle_parts import CLOSED, GATES, ONE_DEVICE, PuzzleParts

__all__ = ["Puzzle", "puzzle_kinds"]

Json = dict[str, Any]


class Puzzle(PuzzleParts):
    """One of them: `pod` must be bound after the second step of `steps`."""

    def __init__(
        self,
        kind: str,
        api: LocalApi,
        number: int,
        dice: random.Random,
        refuse: Callable[[str, int], None],
    ) -> None:
        super().__init__(api, number, dice, refuse)
        self.kind = kind
        self.needs_one_leader = kind in _OF_ONE_LEADER
        """Whether something is known to one process alone: another leader has to begin anew."""
        self.is_told_why = kind in _SIMPLE
        """Whether the pod is tried at once, and told why it has to wait."""
        self.steps: Steps = _KINDS[kind](self)


# Nodes


async def _label(puzzle: Puzzle) -> Steps:
    """Perhaps what the pod is told gets lost on the way: then it is told again."""
    puzzle.refuse("PATCH", puzzle.dice.choice([0, 1, 2]))
    await puzzle.add_node(labels={})
    await puzzle.add_pod()
    yield
    puzzle.refuse("PATCH", 0)
    await puzzle.change(Node, puzzle.node, {"metadata": {"labels": puzzle.labels}})
    yield


async def _new_node(puzzle: Puzzle) -> Steps:
    puzzle.refuse("PATCH", puzzle.dice.choice([0, 1, 2]))
    await puzzle.add_pod()
    yield
    puzzle.refuse("PATCH", 0)
    await puzzle.add_node()
    yield


async def _taint(puzzle: Puzzle) -> Steps:
    """Only taints keep the pod out, wherever: others would wake it whatever became of a taint."""
    await puzzle.add_node(taints=[CLOSED])
    await puzzle.close_others()
    await puzzle.add_pod(nodeSelector={})
    yield
    await puzzle.open()
    yield
    await puzzle.open_others()


async def _cordon(puzzle: Puzzle) -> Steps:
    await puzzle.add_node(unschedulable=True)
    await puzzle.close_others()
    await puzzle.add_pod(nodeSelector={})
    yield
    await puzzle.change(Node, puzzle.node, {"spec": {"unschedulable": None}})
    yield
    await puzzle.open_others()


async def _toleration(puzzle: Puzzle) -> Steps:
    await puzzle.add_node()
    await puzzle.add_pod(tolerations=[])
    yield
    # The server's own tolerations are there too, and only more may be added.
    pod = await puzzle.api.get(Pod, puzzle.pod, "default")
    there = [
        {
            "key": each.key,
            "operator": each.operator,
            "effect": each.effect,
            "tolerationSeconds": each.toleration_seconds,
        }
        for each in pod.spec.tolerations
    ]
    added = {"key": "puzzle", "operator": "Exists"}
    patch: Json = {"spec": {"tolerations": [*there, added]}}
    if puzzle.dice.random() < 0.5:
        patch["metadata"] = {"labels": {"tolerates": "more"}}  # one change of two kinds
    await puzzle.change(Pod, puzzle.pod, patch)
    yield


async def _more_room(puzzle: Puzzle) -> Steps:
    """One part of a thousand, or one byte, is missing."""
    is_memory = puzzle.dice.random() < 0.4
    lacking = {"memory": f"{(1 << 30) - 1}"} if is_memory else {"cpu": "499m"}
    await puzzle.add_node(amounts=lacking)
    requests = {"cpu": "500m", "memory": "1Gi"}
    await puzzle.add_pod(container={"resources": {"requests": requests}})
    yield
    await puzzle.allow(**({"memory": "1Gi"} if is_memory else {"cpu": "500m"}))
    yield


async def _more_pods(puzzle: Puzzle) -> Steps:
    await puzzle.add_node(amounts={"pods": "1"})
    await puzzle.add_filler()
    await puzzle.add_pod()
    yield
    if puzzle.dice.random() < 0.5:
        await puzzle.allow(pods="2")
    else:
        await puzzle.remove_filler()
    yield


# Pods


async def _room_given_back(puzzle: Puzzle) -> Steps:
    await puzzle.add_node(amounts={"cpu": "1"})
    await puzzle.add_filler("600m")
    await puzzle.add_pod()
    yield
    await puzzle.remove_filler()
    yield


async def _work_done(puzzle: Puzzle) -> Steps:
    """A pod that ends by itself gives its room back, too."""
    await puzzle.add_node(amounts={"cpu": "1"})
    await puzzle.add_filler("600m")
    await puzzle.add_pod()
    yield
    await puzzle.change(Pod, puzzle.filler, {"status": {"phase": "Succeeded"}}, "status")
    yield


async def _port(puzzle: Puzzle) -> Steps:
    await puzzle.add_node()
    ports = {"ports": [{"containerPort": 8000, "hostPort": 8000}]}
    await puzzle.add_filler(container=dict(ports))
    await puzzle.add_pod(container=dict(ports))
    yield
    await puzzle.remove_filler()
    yield


async def _apart(puzzle: Puzzle) -> Steps:
    await puzzle.add_node()
    await puzzle.add_filler(labels=puzzle.labels)
    await puzzle.add_pod(affinity={"podAntiAffinity": puzzle.alone})
    yield
    if puzzle.dice.random() < 0.5:
        await puzzle.remove_filler()
    else:
        await puzzle.change(Pod, puzzle.filler, {"metadata": {"labels": {"puzzle": "other"}}})
    yield


async def _kept_apart(puzzle: Puzzle) -> Steps:
    """It is the other one that wants to be alone."""
    await puzzle.add_node()
    await puzzle.add_filler(affinity={"podAntiAffinity": puzzle.alone})
    await puzzle.add_pod(labels=puzzle.labels)
    yield
    if puzzle.dice.random() < 0.5:
        await puzzle.remove_filler()
    else:
        await puzzle.change(Pod, puzzle.pod, {"metadata": {"labels": {"puzzle": "other"}}})
    yield


async def _near(puzzle: Puzzle) -> Steps:
    await puzzle.add_node()
    is_relabelled = puzzle.dice.random() < 0.5
    if is_relabelled:
        await puzzle.add_filler()
    await puzzle.add_pod(affinity={"podAffinity": puzzle.alone})
    yield
    if is_relabelled:
        await puzzle.change(Pod, puzzle.filler, {"metadata": {"labels": puzzle.labels}})
    else:
        await puzzle.add_filler(labels=puzzle.labels)
    yield


async def _spread(puzzle: Puzzle) -> Steps:
    """Of two racks one has a pod, and the other is closed."""
    await puzzle.add_node(labels={**puzzle.labels, "rack": "1"})
    await puzzle.add_node(labels={**puzzle.labels, "rack": "2"}, suffix="0", unschedulable=True)
    await puzzle.add_filler(labels=puzzle.labels)
    constraint = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": puzzle.labels},
    }
    await puzzle.add_pod(labels=puzzle.labels, topologySpreadConstraints=[constraint])
    yield
    way = puzzle.dice.randrange(5)
    if way == 0:
        await puzzle.remove_filler()
    elif way == 1:
        await puzzle.add_filler(labels=puzzle.labels, suffix="0", nodeName=f"{puzzle.node}0")
    elif way == 2:
        await puzzle.api.delete(Node, f"{puzzle.node}0")
    elif way == 3:
        await puzzle.change(Pod, puzzle.filler, {"metadata": {"labels": {"puzzle": "other"}}})
    else:
        await puzzle.change(Node, f"{puzzle.node}0", {"metadata": {"labels": {"rack": "1"}}})
    yield


async def _nearby_rack(puzzle: Puzzle) -> Steps:
    """The only node that it may have comes into the rack where others of its kind are."""
    await puzzle.add_node(labels={**puzzle.labels, "role": "mine"})
    await puzzle.add_node(labels={**puzzle.labels, "rack": "1"}, suffix="0")
    await puzzle.add_filler(labels=puzzle.labels, nodeName=f"{puzzle.node}0")
    selector = {"matchLabels": puzzle.labels}
    term = {"topologyKey": "rack", "labelSelector": selector}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await puzzle.add_pod(affinity=affinity, nodeSelector={**puzzle.labels, "role": "mine"})
    yield
    await puzzle.change(Node, puzzle.node, {"metadata": {"labels": {"rack": "1"}}})
    yield


async def _promised(puzzle: Puzzle) -> Steps:
    """The room is kept for another pod that is nominated to the node and cannot come."""
    await puzzle.add_node(amounts={"cpu": "1"})
    await puzzle.add_filler("800m", nodeName="", schedulingGates=GATES)
    # A nomination that is there when a gated pod is first seen does not count, as in the
    # reference, and a watch that the storm broke may take long to come back.
    await asyncio.sleep(40)
    nominated = {"status": {"nominatedNodeName": puzzle.node}}
    await puzzle.change(Pod, puzzle.filler, nominated, "status")
    await asyncio.sleep(1)
    await puzzle.add_pod()
    yield
    if puzzle.dice.random() < 0.5:
        await puzzle.remove_filler()
    else:
        nominated = {"status": {"nominatedNodeName": None}}
        await puzzle.change(Pod, puzzle.filler, nominated, "status")
    yield
    with contextlib.suppress(ApiError):
        await puzzle.remove_filler()


async def _gate(puzzle: Puzzle) -> Steps:
    await puzzle.add_node()
    await puzzle.add_pod(schedulingGates=GATES)
    yield
    await puzzle.open_gate()
    yield


async def _leaving(puzzle: Puzzle) -> Steps:
    """Two wait for a node, and one of them is on its way out: a finalizer keeps it."""
    keeper = {"finalizers": ["example.com/keeper"], "nodeSelector": puzzle.labels}
    await puzzle.add_filler(nodeName="", **keeper)
    await puzzle.add_pod()
    await asyncio.sleep(puzzle.dice.choice([0.0, 0.5]))
    await puzzle.remove_filler()
    yield
    await puzzle.add_node()
    yield
    await puzzle.change(Pod, puzzle.filler, {"metadata": {"finalizers": None}})


# Volumes


async def _new_volume(puzzle: Puzzle) -> Steps:
    await puzzle.add_node()
    await puzzle.add_claim()
    await puzzle.add_pod(**puzzle.with_claim)
    yield
    await puzzle.add_volume()
    yield


async def _new_claim(puzzle: Puzzle) -> Steps:
    await puzzle.add_node()
    await puzzle.add_volume()
    await puzzle.add_pod(**puzzle.with_claim)
    yield
    await puzzle.add_claim()
    yield


async def _new_class(puzzle: Puzzle) -> Steps:
    await puzzle.add_node()
    await puzzle.add_claim(puzzle.pod)
    await puzzle.add_pod(**puzzle.with_claim)
    yield
    await puzzle.add_class()
    yield


async def _one_pod_only(puzzle: Puzzle) -> Steps:
    """A claim that one pod may use, and another one does."""
    mode = "ReadWriteOncePod"
    await puzzle.add_node()
    await puzzle.add_volume(mode)
    await puzzle.add_claim(mode=mode)
    await puzzle.add_filler(**puzzle.with_claim)
    await puzzle.add_pod(**puzzle.with_claim)
    yield
    await puzzle.remove_filler()
    yield


# Devices


async def _new_devices(puzzle: Puzzle) -> Steps:
    await puzzle.add_node()
    await puzzle.add_device_claim()
    await puzzle.add_pod(**puzzle.with_device(resourceClaimName=puzzle.pod))
    yield
    await puzzle.change(Node, puzzle.node, {"metadata": {"annotations": ONE_DEVICE}})
    yield


async def _new_device_claim(puzzle: Puzzle) -> Steps:
    await puzzle.add_node(annotations=ONE_DEVICE)
    await puzzle.add_pod(**puzzle.with_device(resourceClaimName=puzzle.pod))
    yield
    await puzzle.add_device_claim()
    yield


async def _new_template(puzzle: Puzzle) -> Steps:
    await puzzle.add_node(annotations=ONE_DEVICE)
    await puzzle.add_pod(**puzzle.with_device(resourceClaimTemplateName=puzzle.pod))
    yield
    requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
    spec = {"spec": {"devices": {"requests": requests}}}
    document = {"metadata": {"name": puzzle.pod}, "spec": spec}
    await puzzle.api.create_document(ResourceClaimTemplate, "default", document)
    yield


async def _device_given_back(puzzle: Puzzle) -> Steps:
    """The only device is another claim's, which goes away."""
    await puzzle.add_node(annotations=ONE_DEVICE)
    requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
    held = {"metadata": {"name": puzzle.filler}, "spec": {"devices": {"requests": requests}}}
    await puzzle.api.create_document(ResourceClaim, "default", held)
    result = {"request": "gpu", "driver": DRIVER, "pool": puzzle.node, "device": "gpu-0"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    await puzzle.change(ResourceClaim, puzzle.filler, status, "status")
    await puzzle.add_device_claim()
    await puzzle.add_pod(**puzzle.with_device(resourceClaimName=puzzle.pod))
    yield
    await puzzle.api.delete(ResourceClaim, puzzle.filler, "default")
    yield


async def _served_by_devices(puzzle: Puzzle) -> Steps:
    """An extended resource that no node has, and that a class of devices comes to serve."""
    await puzzle.add_node(annotations=ONE_DEVICE)
    name = f"{SERVED}{puzzle.pod}"
    amounts = {"requests": {name: "1"}, "limits": {name: "1"}}
    await puzzle.add_pod(container={"resources": amounts})
    yield
    await puzzle.add_device_class(name)
    yield


# Groups


async def _new_member(puzzle: Puzzle) -> Steps:
    """A gang of two that has one."""
    await puzzle.add_node()
    await puzzle.add_group(2)
    await puzzle.add_pod(**puzzle.in_group)
    yield
    await puzzle.add_filler(nodeName="", **puzzle.in_group)
    yield


async def _new_group(puzzle: Puzzle) -> Steps:
    await puzzle.add_node()
    await puzzle.add_pod(**puzzle.in_group)
    yield
    await puzzle.add_group(1)
    yield


async def _room_for_all(puzzle: Puzzle) -> Steps:
    """A gang of two with room for one."""
    await puzzle.add_node(amounts={"cpu": "800m"})
    await puzzle.add_group(2)
    await puzzle.add_filler("500m", nodeName="", nodeSelector=puzzle.labels, **puzzle.in_group)
    await puzzle.add_pod(**puzzle.in_group)
    yield
    await puzzle.allow(cpu="2")
    yield


_ALWAYS: dict[str, Callable[[Puzzle], Steps]] = {
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
    "promised": _promised,
    "leaving": _leaving,
}
_OF_VOLUMES: dict[str, Callable[[Puzzle], Steps]] = {
    "new volume": _new_volume,
    "new claim": _new_claim,
    "new class": _new_class,
    "one pod only": _one_pod_only,
}
_OF_DEVICES: dict[str, Callable[[Puzzle], Steps]] = {
    "new devices": _new_devices,
    "new device claim": _new_device_claim,
    "new template": _new_template,
    "device given back": _device_given_back,
    "served by devices": _served_by_devices,
}
_OF_GROUPS: dict[str, Callable[[Puzzle], Steps]] = {
    "new member": _new_member,
    "new group": _new_group,
    "room for all": _room_for_all,
}
_KINDS = {
    **_ALWAYS,
    **_OF_VOLUMES,
    **_OF_DEVICES,
    **_OF_GROUPS,
    **OF_PLUGINS,
    **OF_EXTENDERS,
    **OF_PREEMPTION,
}
_OF_ONE_LEADER = ("promised", *OF_PLUGINS, *OF_EXTENDERS, *OF_PREEMPTION)
_SIMPLE = (
    *("label", "new node", "taint", "cordon", "toleration", "more room", "more pods", "port"),
    *("room given back", "work done", "apart", "kept apart", "near", "spread", "promised"),
    "nearby rack",
    *("new volume", "new claim", "new class", "one pod only"),
)


def puzzle_kinds(plan: Plan) -> list[str]:
    """Those that a plan's cluster has the parts for."""
    kinds = [*_ALWAYS]
    if plan.volumes:
        kinds += [*_OF_VOLUMES] * 3
    if plan.devices:
        kinds += [*_OF_DEVICES] * 3
    if plan.groups:
        kinds += [*_OF_GROUPS] * 5
    if plan.extender:
        kinds += [*OF_EXTENDERS] * 6
    if plan.preempts:
        kinds += [*OF_PREEMPTION] * 2
    kinds += ["held"] * 3 if plan.plugin else ["bound in vain"] * 2
    if plan.plugin and plan.preempts:
        kinds += ["ousted"] * 2
    if plan.plugin == "declines":
        kinds += ["approval"] * 20
    return kinds
