"""A cluster that exists only as JSON: nodes and pods as a server sends them, generated on demand.

`WireApi` answers lists page by page and watches event by event. Every response is decoded by the
real client, so the scheduler's memory is that for a cluster of this size. No store in this process
could share memory with the measured scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from kubesched.api import Node, Pod
from kubesched.api.access import ApiError, ObjectList, PatchType, WatchEvent
from kubesched.api.codec import decode_list
from kubesched.api.meta import Status
from kubesched.foundation.client.watch_stream import WatchDecoder

__all__ = ["WireApi", "node_json", "pod_json"]

T = TypeVar("T", bound=msgspec.Struct)
Json = dict[str, Any]

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_AMOUNTS = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_CHUNK = 1 << 20
"""The maximum part of a watch that the client reads at once."""
_IMAGES_PER_NODE = 20
_IMAGES = 400


def node_json(number: int) -> Json:
    """Make a node as a kubelet writes it: labels, addresses, conditions, versions, images."""
    name = f"node-{number:06d}"
    created = _moment(number)
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": _moment(number % 300),
            "lastTransitionTime": created,
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
            "creationTimestamp": created,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m6i.4xlarge",
                "topology.kubernetes.io/region": "region-1",
                "topology.kubernetes.io/zone": f"zone-{number % 3}",
            },
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {
            "podCIDR": f"10.{number >> 8 & 255}.{number & 255}.0/24",
            "podCIDRs": [f"10.{number >> 8 & 255}.{number & 255}.0/24"],
            "providerID": f"cloud:///zone-{number % 3}/{name}",
        },
        "status": {
            "capacity": _AMOUNTS,
            "allocatable": _AMOUNTS,
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "machineID": f"{number:032x}",
                "systemUUID": f"40000000-0000-4000-8000-{number:012d}",
                "bootID": f"50000000-0000-4000-8000-{number:012d}",
                "kernelVersion": "6.8.0-60-generic",
                "osImage": "Ubuntu 24.04.2 LTS",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": "v1.36.0",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": [_image_json((number * 7 + i) % _IMAGES) for i in range(_IMAGES_PER_NODE)],
        },
    }


def _image_json(number: int) -> Json:
    names = [f"registry.example/app-{number}@{_digest(number)}", f"registry.example/app-{number}:1"]
    return {"names": names, "sizeBytes": 50_000_000 + number}


def pod_json(number: int, node_name: str, workload: int = 0) -> Json:
    """A pod of a Deployment, running if it has a node."""
    app = f"app-{workload}"
    volume = f"kube-api-access-{number:05x}"
    spec: Json = {
        "containers": [
            {
                "name": "main",
                "image": f"registry.example/{app}:1",
                "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": "LOG_LEVEL", "value": "info"}],
                "resources": {
                    "requests": {"cpu": "100m", "memory": "128Mi"},
                    "limits": {"memory": "128Mi"},
                },
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "volumeMounts": [
                    {"name": volume, "mountPath": "/var/run/secrets", "readOnly": True}
                ],
            }
        ],
        "volumes": [{"name": volume, "projected": _TOKEN_VOLUME}],
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
        status = _running_json(number, workload)
    owner: Json = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-5d4f8c7b9"}
    owner |= {"uid": f"30000000-0000-4000-8000-{workload:012d}"}
    owner |= {"controller": True, "blockOwnerDeletion": True}
    return {
        "metadata": {
            "name": f"{app}-5d4f8c7b9-{number:07d}",
            "generateName": f"{app}-5d4f8c7b9-",
            "namespace": f"team-{workload % 20}",
            "uid": f"20000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": _moment(number),
            "labels": {"app": app, "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [owner],
        },
        "spec": spec,
        "status": status,
    }


_TOKEN_VOLUME: Json = {
    "defaultMode": 420,
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ],
}


def _running_json(number: int, workload: int) -> Json:
    """The status that a kubelet writes."""
    host_ip = f"10.0.{number % 5000 >> 8}.{number % 256}"
    pod_ip = f"10.{128 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
    started = _moment(number, 3)
    changes = {
        "PodScheduled": _moment(number),
        "Initialized": _moment(number),
        "PodReadyToStartContainers": started,
        "ContainersReady": started,
        "Ready": started,
    }
    return {
        "phase": "Running",
        "qosClass": "Burstable",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": _moment(number),
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
            for kind, moment in changes.items()
        ],
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": started}},
                "lastState": {},
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": f"registry.example/app-{workload}:1",
                "imageID": f"registry.example/app-{workload}@{_digest(workload)}",
                "containerID": f"containerd://{number:064x}",
            }
        ],
    }


def _moment(number: int, later_s: int = 0) -> str:
    """Return a creation time; objects are created seven seconds apart."""
    moment = _EPOCH + timedelta(seconds=number * 7 + later_s)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _digest(number: int) -> str:
    return f"sha256:{number:064x}"


class WireApi:
    """The part of an API server that a scheduler needs for nodes and pods.

    Other kinds are empty.
    """

    def __init__(self, nodes: int, running_pods: int, workloads: int = 200) -> None:
        self._nodes, self._running, self._workloads = nodes, running_pods, workloads
        self._created = 0
        self._version = nodes + running_pods
        self._events: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting: dict[tuple[str, str], int] = {}
        self.bound = 0

    def create_pod(self) -> None:
        """Add a new pod to the watch."""
        number = self._running + self._created
        self._created += 1
        document = self._pod(number, "")
        metadata = document["metadata"]
        self._waiting[metadata["namespace"], metadata["name"]] = number
        self._send("ADDED", document)

    def _pod(self, number: int, node_name: str) -> Json:
        workload = number % self._workloads
        if number < self._running:
            # A server lists in the order of names, so pods of a workload are adjacent.
            workload = number * self._workloads // self._running
        return pod_json(number, node_name, workload)

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
            return self._running, lambda n: self._pod(n, f"node-{n % self._nodes:06d}")
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
            await asyncio.Event().wait()  # no other changes follow
        decoder = WatchDecoder(kind)
        while True:
            lines = [await self._events.get()]
            length = len(lines[0])
            while not self._events.empty() and length < _CHUNK:
                lines.append(self._events.get_nowait())
                length += len(lines[-1])
            for event in decoder.feed(b"".join(lines)):
                yield event

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:  # noqa: ARG002
        self.bound += 1
        self._send("MODIFIED", self._pod(self._waiting.pop((namespace, name)), node))

    async def create(self, new: T) -> T:
        return new  # an Event object, which the benchmark does not read

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
    message = f"unexpected request: {' '.join(str(word) for word in words)}"
    return ApiError(Status(status="Failure", code=405, reason="MethodNotAllowed", message=message))
