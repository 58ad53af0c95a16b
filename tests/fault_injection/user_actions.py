"""Actions of users: they create, change, scale, recreate and delete objects."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.api import (
    Deployment,
    Lease,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    PriorityClass,
    ResourceClaim,
    ResourceClaimTemplate,
    StorageClass,
    codec,
)
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.controllers.volume_provisioning import STORAGE_CLASSES
from kubesched.testing import make_pdb
from tests.fault_injection.directed_scenarios import directed_kinds
from tests.fault_injection.faulty_plugin import ACCEPTING_CLASS
from tests.fault_injection.generated_objects import (
    DRIVER,
    PRIORITIES,
    cluster_claims,
    cluster_node,
    cluster_pod,
    local_volume,
    with_devices,
)
from tests.fault_injection.later_scenarios import later_kinds
from tests.fault_injection.liveness_scenarios import LivenessScenario, scenario_kinds
from tests.fault_injection.plan import Plan, Step, member_name
from tests.fault_injection.scenario_parts import ScenarioFaults

__all__ = ["UserActions"]

Json = dict[str, Any]
_SERVERS = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")


_KINDS_OF_SCENARIOS: dict[str, Callable[[Plan], list[str]]] = {
    "": scenario_kinds,
    "directed": directed_kinds,
    "later": later_kinds,
}


class UserActions:
    """Carries out the steps of users.

    `api` is their client. A restart of the server replaces it.
    """

    def __init__(
        self,
        plan: Plan,
        api: LocalApi,
        faults: Callable[[], ScenarioFaults],
    ) -> None:
        self._plan, self.api, self._faults = plan, api, faults
        self._nodes = 0

    async def prepare(self) -> None:
        plan = self._plan
        if plan.volumes:
            local = {**STORAGE_CLASSES[0], "metadata": {"name": "local"}}
            local["provisioner"] = "kubernetes.io/no-provisioner"
            for document in (*STORAGE_CLASSES, local):
                await self.api.create_document(StorageClass, None, document)
        for name, value in PRIORITIES.items() if plan.preempts else ():
            policy = "Never" if name == "polite" else "PreemptLowerPriority"
            document = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            await self.api.create_document(PriorityClass, None, document)
        for _ in range(plan.nodes):
            await self._add_node()
        if plan.devices:
            requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
            spec = {"devices": {"requests": requests}}
            template = {"metadata": {"name": "one"}, "spec": {"spec": spec}}
            await self.api.create_document(ResourceClaimTemplate, "default", template)
            shared = {"metadata": {"name": "shared"}, "spec": spec}
            await self.api.create_document(ResourceClaim, "default", shared)
        if plan.workload:
            await self.api.create_document(Deployment, "default", _DEPLOYMENT)
            await self._create(make_pdb("db", selector={"app": "db"}, disruptions_allowed=1))

    async def open(self) -> None:
        """Create the storage class without which the faulty plugin declines pods."""
        document = {**STORAGE_CLASSES[0], "metadata": {"name": ACCEPTING_CLASS}}
        await self.api.create_document(StorageClass, None, document)

    def scenario(self, step: Step) -> LivenessScenario:
        """Draw the scenario of a step; its name says from which kinds."""
        rng = random.Random(f"puzzle/{step.number}")
        self._nodes += 1
        kinds = _KINDS_OF_SCENARIOS[step.name]
        kind, number = rng.choice(kinds(self._plan)), self._nodes - 1
        return LivenessScenario(kind, self.api, number, rng, self._faults())

    async def step(self, step: Step) -> bool:
        """Carry out a step; False if it is no action of a user."""
        api = self.api
        with contextlib.suppress(ApiError):
            match step.what:
                case "create pod":
                    await self._create_pod(step.name, step.number)
                case "delete pod":
                    grace = 0 if step.number % 3 == 0 else None
                    await api.delete(Pod, step.name, "default", grace_period_seconds=grace)
                    if step.number % 5 == 0:
                        for kind in ("local", "standard"):
                            name = f"{step.name}-{kind}"
                            with contextlib.suppress(ApiError):
                                await api.delete(PersistentVolumeClaim, name, "default")
                case "remake pod":
                    await self._remake(step)
                case "change pod":
                    await self._change_pod(step)
                case "create group":
                    await self._create_group(step)
                case "bind pod":
                    await self._bind(step)
                case "change node":
                    await self._change_node(step.number)
                case "replace node":
                    await self._replace_node(step.number)
                case "lease deleted":
                    await api.delete(Lease, "kube-scheduler", "kube-system")
                case "scale":
                    patch = {"spec": {"replicas": step.number}}
                    await api.patch(Deployment, "web", "default", patch, patch_type="merge")
                case _:
                    return False
        return True

    async def _create(self, new: Any) -> None:
        document = msgspec.json.decode(codec.encode(new))
        document["metadata"] = {
            key: value for key, value in document["metadata"].items() if key not in _SERVERS
        }
        namespace = document["metadata"].get("namespace")
        await self.api.create_document(type(new), namespace, document)

    async def _create_pod(
        self, name: str, number: int, node_name: str = "", group: str = ""
    ) -> None:
        pod = cluster_pod(self._plan, name, number)
        for claim in cluster_claims(pod):
            with contextlib.suppress(ApiError):
                await self._create(claim)
        document = msgspec.json.decode(codec.encode(pod))
        document = with_devices(self._plan, document, number)
        if node_name:
            document["spec"] = {**document["spec"], "nodeName": node_name}
            document["spec"].pop("schedulingGates", None)
        if group:
            document["spec"] = {**document["spec"], "schedulingGroup": {"podGroupName": group}}
        document.pop("status", None)
        document["metadata"] = {
            key: value for key, value in document["metadata"].items() if key not in _SERVERS
        }
        await self.api.create_document(Pod, "default", document)

    async def _create_group(self, step: Step) -> None:
        """Create pods with the same requirements and their PodGroup, in any order."""
        rng = random.Random(step.number)
        size = rng.randint(1, 4)
        policy = {"gang": {"minCount": rng.randint(1, size)}} if rng.random() < 0.8 else {}
        document = {
            "metadata": {"name": step.name},
            "spec": {"schedulingPolicy": policy or {"basic": {}}},
        }
        place = rng.randrange(size + 1)
        for member in range(size + 1):
            if member == place:
                await self.api.create_document(PodGroup, "default", document)
            if member < size:
                name = member_name(int(step.name[1:]), member)
                await self._create_pod(name, step.number, group=step.name)
            if rng.random() < 0.3:
                await asyncio.sleep(rng.choice([0.1, 1.0, 5.0]))

    async def _add_node(self) -> None:
        node = cluster_node(self._plan, self._nodes)
        self._nodes += 1
        await self._create(node)
        if self._plan.volumes:
            for number in range(2):
                await self._create(local_volume(node.metadata.name, number))

    async def _remake(self, step: Step) -> None:
        """Delete a pod and create another one with its name, in some cases on the same node."""
        old = await self.api.get(Pod, step.name, "default")
        await self.api.delete(Pod, step.name, "default", grace_period_seconds=0)
        node_name = old.spec.node_name if step.number % 2 else ""
        await self._create_pod(step.name, step.number, node_name)

    async def _bind(self, step: Step) -> None:
        """Bind a pod as another client, whatever a scheduler does with it at that time."""
        pod = await self.api.get(Pod, step.name, "default")
        nodes = (await self.api.list(Node)).items
        node = nodes[step.number % len(nodes)].metadata.name
        await self.api.bind("default", step.name, pod.metadata.uid, node)

    async def _change_pod(self, step: Step) -> None:
        patches: list[Json] = [
            {"metadata": {"labels": {"app": ["web", "db", "other"][step.number % 3]}}},
            {"metadata": {"annotations": {"seen": str(step.number)}}},
            {"spec": {"schedulingGates": None}},
        ]
        patch = patches[step.number // 3 % 3]
        await self.api.patch(Pod, step.name, "default", patch, patch_type="merge")

    async def _change_node(self, number: int) -> None:
        rng = random.Random(number)
        node = await self.api.get(Node, f"n{rng.randrange(self._nodes)}")
        spec, labels = node.spec, node.metadata.labels
        match rng.randrange(6):
            case 0:
                spec = replace(spec, unschedulable=not spec.unschedulable)
            case 1:
                labels = {**labels, "disk": rng.choice(["ssd", "hdd"])}
            case 2:
                labels = {**labels, "topology.kubernetes.io/zone": rng.choice("abc")}
            case 3:
                cpu = rng.choice(["1", "4", "8", "16"])
                amounts = {**node.status.allocatable, "cpu": cpu, "pods": rng.choice(["4", "20"])}
                status = replace(node.status, allocatable=amounts)
                await self.api.update(replace(node, status=status), subresource="status")
                return
            case 4:
                spec = replace(spec, taints=())
            case _:
                taints = cluster_node(self._plan, rng.randrange(50)).spec.taints
                spec = replace(spec, taints=taints)
        metadata = replace(node.metadata, labels=labels)
        await self.api.update(replace(node, spec=spec, metadata=metadata))

    async def _replace_node(self, number: int) -> None:
        rng = random.Random(number)
        await self._add_node()
        if rng.random() < 0.5:
            return
        name = f"n{rng.randrange(self._nodes)}"
        await self.api.delete(Node, name)
        for pod in (await self.api.list(Pod)).items:
            if pod.spec.node_name == name:
                await self.api.delete(Pod, pod.metadata.name, "default", grace_period_seconds=0)
        for volume in (await self.api.list(PersistentVolume)).items:
            if volume.metadata.name.startswith(f"disk-{name}-"):
                with contextlib.suppress(ApiError):
                    await self.api.delete(PersistentVolume, volume.metadata.name)
        if rng.random() < 0.3:  # a node with the same name comes back
            await self._create(cluster_node(self._plan, int(name[1:])))


_DEPLOYMENT: Json = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "400m"}}}
                ],
            },
        },
    },
}
