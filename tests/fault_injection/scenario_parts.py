"""The parts of liveness scenarios: a node of its own, a pod for it, and an obstacle."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from kubesched.api import (
    DeviceClass,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ResourceClaim,
    ResourceClaimTemplate,
    StorageClass,
)
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.controllers.device_driver import DEVICES
from kubesched.cluster.controllers.volume_provisioning import STORAGE_CLASSES
from kubesched.foundation.client.transport import OutgoingRequest
from tests.fault_injection.generated_objects import DRIVER, FOO, HOSTNAME
from tests.fault_injection.intercepted_requests import refusal
from tests.foundation.client.wire_network import Trouble

__all__ = [
    "ASKS_EXTENDER",
    "CLOSED",
    "GATES",
    "ONE_DEVICE",
    "PAGE_SIZE",
    "Intercept",
    "ScenarioFaults",
    "ScenarioParts",
]

Json = dict[str, Any]
ONE_DEVICE = {DEVICES: json.dumps([{"driver": DRIVER, "count": 1}])}
ASKS_EXTENDER = {"resources": {"requests": {FOO: "1"}, "limits": {FOO: "1"}}}
GATES = [{"name": "example.com/later"}]
Intercept = Callable[[OutgoingRequest], Trouble | None]
# Page size of the informers' lists. There are so few objects that they would have one page
# otherwise.
PAGE_SIZE = 3
CLOSED = {"key": "maintenance", "effect": "NoSchedule"}
# The longest backoff of an informer, and some more.
_RESUMED_WITHIN_S = 8


class ScenarioFaults(Protocol):
    """The faults that a scenario injects itself."""

    def refuse(self, method: str, count: int) -> None:
        """Make the server refuse the next requests of a method about pods."""

    def intercept(self, trouble: Intercept | None) -> None:
        """Decide what happens to each request; None: all succeed."""

    def forget_history(self) -> None:
        """Break all watches; they have to begin with a new list."""

    def merge_events(self, is_on: bool) -> None:
        """Break all watches; from then on each skips to the last version of every object."""

    def pause_leader(self) -> Callable[[], None]:
        """Pause the machine of the leader; the result ends the pause."""


class ScenarioParts:
    """Creates the objects of one scenario, with names made from its number."""

    def __init__(
        self,
        api: LocalApi,
        number: int,
        rng: random.Random,
        faults: ScenarioFaults,
    ) -> None:
        self.api, self.rng, self.faults = api, rng, faults
        self.refuse, self.intercept = faults.refuse, faults.intercept
        self.page_size = PAGE_SIZE
        # Violations observed while one leader had all objects.
        self.wrong: list[str] = []
        self._removals: list[asyncio.Task[None]] = []
        # Pods of which no more than `victims` may be deleted at the end.
        self.spared: list[str] = []
        self.victims = 0
        self.node, self.pod = f"n{number}", f"p{1000 + number}"
        self.filler = f"p{2000 + number}"
        self.labels = {"scenario": str(number)}
        self._taint = {"key": "scenario", "value": str(number), "effect": "NoSchedule"}

    # Objects

    async def add_node(
        self, *, labels: Json | None = None, taints: Any = (), suffix: str = "", **more: Any
    ) -> None:
        """Create a node that only pods of this scenario tolerate."""
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **more.pop("amounts", {})}
        name = self.node + suffix
        labels = self.labels if labels is None else labels
        document = {
            "metadata": {
                "name": name,
                "labels": {HOSTNAME: name, **labels},
                "annotations": more.pop("annotations", {}),
            },
            "spec": {"taints": [self._taint, *taints], **more},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        await self.api.create_document(Node, None, document)

    def _pod(self, name: str, cpu: str, spec: Json, labels: Json | None = None) -> Json:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        container |= spec.pop("container", {})
        metadata: Json = {"name": name, "labels": labels or {}}
        metadata["annotations"] = spec.pop("annotations", {})
        metadata["finalizers"] = spec.pop("finalizers", [])
        tolerates = {"key": "scenario", "operator": "Equal", "value": self.labels["scenario"]}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
        spec.setdefault("tolerations", [tolerates])
        return {"metadata": metadata, "spec": spec}

    async def add_pod(self, cpu: str = "500m", labels: Json | None = None, **spec: Any) -> None:
        """Create the pod that must be placed; it selects the scenario's node by default."""
        spec.setdefault("nodeSelector", self.labels)
        document = self._pod(self.pod, cpu, spec, labels)
        await self.api.create_document(Pod, "default", document)

    async def add_filler(
        self, cpu: str = "10m", labels: Json | None = None, suffix: str = "", **spec: Any
    ) -> None:
        """Create another pod, which a user puts on the node by default."""
        spec.setdefault("nodeName", self.node)
        document = self._pod(self.filler + suffix, cpu, spec, labels)
        await self.api.create_document(Pod, "default", document)

    # Actions

    @contextlib.asynccontextmanager
    async def gap(self, resource: str) -> AsyncIterator[None]:
        """What happens in the block is in no watch of a resource, only in the next list."""

        self._fail_reads(resource, refusal(503, "ServiceUnavailable"))
        self.faults.forget_history()
        await asyncio.sleep(0.1)
        yield
        self.faults.forget_history()
        await asyncio.sleep(1)
        self.intercept(None)

    @contextlib.asynccontextmanager
    async def merged(self, resource: str) -> AsyncIterator[None]:
        """Of what happens in the block, watches have only the last event of each object."""
        self._fail_reads(resource, Trouble(refused=True))
        self.faults.merge_events(True)
        await asyncio.sleep(0.1)
        yield
        self.intercept(None)
        await asyncio.sleep(_RESUMED_WITHIN_S)
        self.faults.merge_events(False)

    def _fail_reads(self, resource: str, trouble: Trouble) -> None:
        def failing(request: OutgoingRequest) -> Trouble | None:
            is_read = f"/{resource}" in request.target and request.method == "GET"
            return trouble if is_read else None

        self.intercept(failing)

    async def remove_filler(self) -> None:
        await self.api.delete(Pod, self.filler, "default", grace_period_seconds=0)

    async def remove_node(self) -> None:
        """Delete the node, and the pods on it."""
        await self.api.delete(Node, self.node)
        for pod in (await self.api.list(Pod)).items:
            if pod.spec.node_name == self.node:
                await self.api.delete(Pod, pod.metadata.name, "default", grace_period_seconds=0)

    def remove_filler_now(self) -> None:
        """Delete the filler as soon as the code that calls this has returned."""
        self._removals.append(asyncio.create_task(self.remove_filler(), name="a user deletes"))

    async def has(self, kind: type[Any], name: str) -> bool:
        with contextlib.suppress(ApiError):
            await self.api.get(kind, name, "default")
            return True
        return False

    async def node_of(self, pod: str) -> str:
        """Return the node of a pod; empty if there is none, or no such pod."""
        with contextlib.suppress(ApiError):
            return (await self.api.get(Pod, pod, "default")).spec.node_name
        return ""

    async def until_nominated(self) -> bool:
        """Wait a few seconds until the filler is nominated to the node; False if it is not."""
        for _ in range(20):
            pod = await self.api.get(Pod, self.filler, "default")
            if pod.status.nominated_node_name == self.node:
                return True
            await asyncio.sleep(0.2)
        return False

    async def open_gate(self) -> None:
        await self.change(Pod, self.pod, {"spec": {"schedulingGates": None}})

    async def change(self, kind: type[Any], name: str, patch: Json, subresource: str = "") -> None:
        namespace = None if kind is Node else "default"
        more = {"subresource": subresource} if subresource else {}
        await self.api.patch(kind, name, namespace, patch, patch_type="merge", **more)

    async def allow(self, **amounts: str) -> None:
        patch = {"status": {"allocatable": amounts, "capacity": amounts}}
        await self.change(Node, self.node, patch, "status")

    async def open(self) -> None:
        await self._write_taints(self.node, [self._taint])

    async def _write_taints(self, node: str, taints: list[Json]) -> None:
        await self.change(Node, node, {"spec": {"taints": taints}})

    async def close_others(self) -> None:
        """Taint all other nodes, so that only taints keep the pod from them."""
        for node in (await self.api.list(Node)).items:
            if node.metadata.name == self.node:
                continue
            await self._write_taints(node.metadata.name, [*_taints(node), CLOSED])

    async def open_others(self) -> None:
        for node in (await self.api.list(Node)).items:
            left = [each for each in _taints(node) if each["key"] != CLOSED["key"]]
            if len(left) < len(node.spec.taints):
                await self._write_taints(node.metadata.name, left)

    async def add_budget(self) -> None:
        """Create a budget that allows no disruption of pods with the scenario's labels."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": self.labels}}
        document = {"metadata": {"name": self.pod}, "spec": spec}
        await self.api.create_document(PodDisruptionBudget, "default", document)

    async def remove_budget(self) -> None:
        await self.api.delete(PodDisruptionBudget, self.pod, "default")

    async def add_claim(
        self,
        storage_class: str = "local",
        mode: str = "ReadWriteOnce",
        suffix: str = "",
        annotations: Json | None = None,
    ) -> None:
        spec = {
            "accessModes": [mode],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        metadata = {"name": self.pod + suffix, "annotations": annotations or {}}
        document = {"metadata": metadata, "spec": spec}
        await self.api.create_document(PersistentVolumeClaim, "default", document)

    async def add_class(self, name: str = "") -> None:
        document = {**STORAGE_CLASSES[0], "metadata": {"name": name or self.pod}}
        await self.api.create_document(StorageClass, None, document)

    async def add_volume(self, mode: str = "ReadWriteOnce", suffix: str = "") -> None:
        term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [self.node]}]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": [mode],
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        document = {"metadata": {"name": f"disk-{self.node}{suffix}"}, "spec": spec}
        await self.api.create_document(PersistentVolume, None, document)

    async def add_group(self, count: int) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": count}}}
        document = {"metadata": {"name": self.pod}, "spec": spec}
        await self.api.create_document(PodGroup, "default", document)

    @property
    def alone(self) -> Json:
        """A term about pods with the scenario's labels on the same node."""
        selector = {"matchLabels": self.labels}
        term = {"topologyKey": HOSTNAME, "labelSelector": selector}
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}

    @property
    def in_group(self) -> Json:
        return {"schedulingGroup": {"podGroupName": self.pod}}

    @property
    def with_claim(self) -> Json:
        claim = {"persistentVolumeClaim": {"claimName": self.pod}}
        return {"volumes": [{"name": "disk", **claim}]}

    def with_claims(self, *suffixes: str) -> Json:
        """The volumes of a pod that uses several claims."""
        return {
            "volumes": [
                {
                    "name": f"disk{suffix}",
                    "persistentVolumeClaim": {"claimName": f"{self.pod}{suffix}"},
                }
                for suffix in suffixes
            ]
        }

    @staticmethod
    def devices(count: int) -> Json:
        """The annotation of a node with devices."""
        return {DEVICES: json.dumps([{"driver": DRIVER, "count": count}])}

    def with_device(self, **reference: str) -> Json:
        return {
            "container": {"resources": {"claims": [{"name": "gpu"}]}},
            "resourceClaims": [{"name": "gpu", **reference}],
        }

    async def add_device_class(self, resource: str) -> None:
        """Create a device class whose devices serve an extended resource."""
        selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
        spec = {"selectors": selectors, "extendedResourceName": resource}
        document = {"metadata": {"name": self.pod}, "spec": spec}
        await self.api.create_document(DeviceClass, None, document)

    async def add_device_claim(self, name: str = "") -> None:
        document = {"metadata": {"name": name or self.pod}, "spec": _ONE_DEVICE_SPEC}
        await self.api.create_document(ResourceClaim, "default", document)

    async def add_device_template(self) -> None:
        document = {"metadata": {"name": self.pod}, "spec": {"spec": _ONE_DEVICE_SPEC}}
        await self.api.create_document(ResourceClaimTemplate, "default", document)

    async def duplicate_claim(self) -> None:
        """Create a second claim for the pod's template, as a controller does that restarted."""
        pod = await self.api.get(Pod, self.pod, "default")
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": self.pod,
            "uid": pod.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata = {
            "name": f"{self.pod}-gpu-again",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [owner],
        }
        document = {"metadata": metadata, "spec": _ONE_DEVICE_SPEC}
        await self.api.create_document(ResourceClaim, "default", document)

    async def allocate(self, claim: str, device: str) -> bool:
        """Allocate a device of the scenario's node to a claim; False if it has one already."""
        current = await self.api.get(ResourceClaim, claim, "default")
        if current.status.allocation is not None:
            return False
        result = {"request": "gpu", "driver": DRIVER, "pool": self.node, "device": device}
        # Schedulers write the time; without it no other scheduler could reserve the claim.
        allocation = {
            "devices": {"results": [result]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        }
        status = {"status": {"allocation": allocation}}
        await self.change(ResourceClaim, claim, status, "status")
        return True


_ONE_DEVICE_SPEC: Json = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}
}


def _taints(node: Node) -> list[Json]:
    return [
        {"key": each.key, "value": each.value, "effect": each.effect} for each in node.spec.taints
    ]
