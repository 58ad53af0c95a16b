"""A cluster that exists only as JSON: nodes and pods as a server would send them, made on the fly.

`WireApi` answers lists page by page and watches event by event, and every answer goes through
the decoders of the real client, so what a scheduler keeps is what it would keep of a cluster of
that size. Nothing is kept here: no store shares memory with the scheduler that is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from kubesched.api import Node, Pod
from kubesched.api.access import ApiError, ObjectList, PatchType, WatchEvent
from kubesched.api.codec import decode_list
from kubesched.api.meta import Status
from kubesched.client.watch_stream import WatchDecoder

__all__ = ["WireApi", "node_json", "pod_json"]

T = TypeVar("T", bound=msgspec.Struct)
Json = dict[str, Any]

_CREATED = "2026-01-01T00:00:00Z"
_AMOUNTS = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_APPS = 200
"""Different workloads that the pods belong to."""


def node_json(number: int) -> Json:
    """A node as a kubelet keeps it: labels, addresses, conditions, images."""
    name = f"node-{number:06d}"
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": _CREATED,
            "lastTransitionTime": _CREATED,
            "reason": f"Kubelet{kind}",
            "message": f"kubelet reports {kind}",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    return {
        "metadata": {
            "name": name,
            "uid": f"10000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": _CREATED,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m6i.4xlarge",
                "topology.kubernetes.io/region": "region-1",
                "topology.kubernetes.io/zone": f"zone-{number % 3}",
            },
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"podCIDR": f"10.{number >> 8 & 255}.{number & 255}.0/24", "providerID": name},
        "status": {
            "capacity": _AMOUNTS,
            "allocatable": _AMOUNTS,
            "conditions": conditions,
            "addresses": [{"type": "Hostname", "address": name}],
            "images": [
                {"names": [f"registry.example/app-{i}:1"], "sizeBytes": 50_000_000 + i}
                for i in range(number % 7, number % 7 + 10)
            ],
        },
    }


def pod_json(number: int, node_name: str) -> Json:
    """A pod of some Deployment, running if it has a node."""
    app = f"app-{number % _APPS}"
    name = f"{app}-5d4f8c7b9-{number:07d}"
    spec: Json = {
        "containers": [
            {
                "name": "main",
                "image": f"registry.example/{app}:1",
                "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": "LOG_LEVEL", "value": "info"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "volumeMounts": [
                    {"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}
                ],
            }
        ],
        "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": []}}],
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
            | {"tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "enableServiceLinks": True,
    }
    status: Json = {"phase": "Pending", "qosClass": "Burstable"}
    if node_name:
        spec["nodeName"] = node_name
        status = {
            "phase": "Running",
            "qosClass": "Burstable",
            "hostIP": "10.0.0.1",
            "podIP": f"10.128.{number >> 8 & 255}.{number & 255}",
            "startTime": _CREATED,
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": _CREATED}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0}],
        }
    owner: Json = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-5d4f8c7b9"}
    owner |= {"uid": f"30000000-0000-4000-8000-{number % _APPS:012d}", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 20}",
            "uid": f"20000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": _CREATED,
            "labels": {"app": app, "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [owner],
        },
        "spec": spec,
        "status": status,
    }


class WireApi:
    """As much of an API server as a scheduler needs for nodes and pods; other kinds are empty."""

    def __init__(self, nodes: int, running_pods: int) -> None:
        self._nodes, self._running = nodes, running_pods
        self._created = 0
        self._version = nodes + running_pods
        self._events: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting: dict[tuple[str, str], int] = {}
        self.bound = 0

    def create_pod(self) -> None:
        """A new pod comes up in the watch."""
        number = self._running + self._created
        self._created += 1
        document = pod_json(number, "")
        metadata = document["metadata"]
        self._waiting[metadata["namespace"], metadata["name"]] = number
        self._send("ADDED", document)

    def _send(self, kind: str, document: Json) -> None:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        event = {"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", **document}}
        self._events.put_nowait(msgspec.json.encode(event) + b"\n")

    # -- ApiAccess ---------------------------------------------------------------------

    async def list(
        self,
        kind: type[T],
        namespace: str | None = None,  # noqa: ARG002  all there is is listed whole
        *,
        label_selector: str = "",  # noqa: ARG002
        field_selector: str = "",  # noqa: ARG002
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList[T]:
        total, made = self._generator(kind)
        first = int(continue_token or 0)
        end = min(total, first + (limit or total))
        metadata: Json = {"resourceVersion": str(self._version)}
        if end < total:
            metadata["continue"] = str(end)
        page = {"metadata": metadata, "items": [made(number) for number in range(first, end)]}
        await asyncio.sleep(0)
        return decode_list(msgspec.json.encode(page), kind)

    def _generator(self, kind: type[Any]) -> tuple[int, Callable[[int], Json]]:
        if kind is Node:
            return self._nodes, node_json
        if kind is Pod:
            return self._running, lambda n: pod_json(n, f"node-{n % self._nodes:06d}")
        return 0, node_json

    async def watch(
        self,
        kind: type[T],
        namespace: str | None = None,  # noqa: ARG002
        *,
        resource_version: str,  # noqa: ARG002
        label_selector: str = "",  # noqa: ARG002
        field_selector: str = "",  # noqa: ARG002
        send_initial_events: bool = False,  # noqa: ARG002
    ) -> AsyncIterator[WatchEvent[T]]:
        if kind is not Pod:
            await asyncio.Event().wait()  # nothing else ever changes
        decoder = WatchDecoder(kind)
        while True:
            lines = [await self._events.get()]
            while not self._events.empty():
                lines.append(self._events.get_nowait())
            for event in decoder.feed(b"".join(lines)):
                yield event

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:  # noqa: ARG002
        self.bound += 1
        self._send("MODIFIED", pod_json(self._waiting.pop((namespace, name)), node))

    async def create(self, new: T) -> T:
        return new  # an event about a pod, which nobody here reads

    async def update(self, changed: T, *, subresource: str = "") -> T:
        raise _refused("update", type(changed).__name__, subresource)

    async def get(self, kind: type[T], name: str, namespace: str | None = None) -> T:
        raise _refused("get", kind.__name__, namespace, name)

    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any],  # noqa: ARG002
        *,
        patch_type: PatchType = "strategic",  # noqa: ARG002
        subresource: str = "",
    ) -> T:
        raise _refused("patch", kind.__name__, namespace, name, subresource)

    async def delete(
        self,
        kind: type[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",  # noqa: ARG002
        grace_period_seconds: int | None = None,  # noqa: ARG002
    ) -> None:
        raise _refused("delete", kind.__name__, namespace, name)


def _refused(*words: object) -> ApiError:
    message = f"nobody expects: {' '.join(str(word) for word in words)}"
    return ApiError(Status(status="Failure", code=405, reason="MethodNotAllowed", message=message))
