"""A stand-in for the part of kubelets that writes about nodes: status, leases and heartbeats.

A node that a user creates has no conditions. The agent adds the conditions of a healthy node once.
It does not overwrite conditions that a user sets. From then on it renews the lease and confirms the
conditions periodically, unless the node is marked as stopped.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kubesched.api import ApiAccess, ApiError, Lease, Node
from kubesched.api.coordination import LeaseSpec
from kubesched.api.meta import ObjectMeta, OwnerReference
from kubesched.api.time import format_micro_time, format_time
from kubesched.cluster.nodes.pod_behavior import STOPPED
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

__all__ = [
    "LEASE_NAMESPACE",
    "NODE_NETWORK",
    "SILENT_REASON",
    "NodeAgent",
    "first_status",
    "is_stopped",
]

LEASE_NAMESPACE = "kube-node-lease"
# The reason of conditions that became unknown because the kubelet stopped confirming them.
SILENT_REASON = "NodeStatusUnknown"
_LEASE_SECONDS = 40
# The period of lease renewals, in seconds. Each second has its share of the nodes.
_RENEWAL_TURNS = 10
# The period in which conditions are confirmed, in seconds.
_CONFIRMATION_TURNS = 300
_NOT_FOUND, _EXISTS, _GONE = 404, 409, 410
_RETRY_NS = SECOND
_FINAL = frozenset({404, 409, 422})
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "sufficient PID available"),
    ("Ready", "True", "KubeletReady", "posting ready status"),
)

log = get_logger(__name__)


def is_stopped(node: Node) -> bool:
    """Whether a node has the annotation that its kubelet is not running."""
    return node.metadata.annotations.get(STOPPED, "false").lower() not in ("", "false")


# Nodes have addresses from 10.64.0.1 on: services and pods have the networks before and after it.
# A node in the data of an older cluster may have an address in 10.0.0.0/10.
NODE_NETWORK = 64

_SYSTEM = {
    "kubeletVersion": "v1.36.4",
    "operatingSystem": "linux",
    "architecture": "amd64",
    "osImage": "kubesched",
    "kernelVersion": "none",
    "containerRuntimeVersion": "kubesched://1",
}


def missing_system_info(node: Node) -> dict[str, Any] | None:
    """Return a status patch with the system info if a client has cleared it; else None.

    A Go client that patches a part of the status also sends the empty fields.
    """
    info = node.status.node_info
    is_cleared = not info.kubelet_version and not info.operating_system
    return {"nodeInfo": _SYSTEM} if is_cleared else None


def first_status(node: Node, now_ns: int, number: int = 0) -> dict[str, Any] | None:
    """Return the status that a kubelet writes at its first start; None if the node has one."""
    if any(condition.type == "Ready" for condition in node.status.conditions):
        return None
    addresses = [{"type": "Hostname", "address": node.metadata.name}]
    if number:
        internal = f"10.{NODE_NETWORK + (number >> 16 & 63)}.{number >> 8 & 255}.{number & 255}"
        addresses.insert(0, {"type": "InternalIP", "address": internal})
    return {
        "conditions": _healthy(now_ns),
        "addresses": addresses,
        "nodeInfo": _SYSTEM,
    }


def _healthy(now_ns: int) -> list[dict[str, Any]]:
    now = format_time(now_ns)
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": f"kubelet {'is' if kind == 'Ready' else 'has'} {message}",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status, reason, message in _CONDITIONS
    ]


def confirmed_status(node: Node, now_ns: int) -> dict[str, Any]:
    """Return a status patch that confirms the conditions of a node.

    Conditions that became unknown while the kubelet was silent become those of a healthy node.
    """
    unknown = {
        each.type
        for each in node.status.conditions
        if each.status == "Unknown" and each.reason == SILENT_REASON
    }
    conditions: list[dict[str, Any]] = [
        {"type": each.type, "lastHeartbeatTime": format_time(now_ns)}
        for each in node.status.conditions
        if each.type not in unknown
    ]
    conditions += [each for each in _healthy(now_ns) if each["type"] in unknown]
    return {"conditions": conditions}


def allocatable_after_change(node: Node, before: Node) -> dict[str, Any] | None:
    """Return a status patch for allocatable extended resources after a change of capacity.

    A user who adds an extended resource writes the capacity only. The kubelet adds it to the
    allocatable resources. None if nothing changes.
    """
    allocatable, capacity = node.status.allocatable, node.status.capacity
    earlier = before.status.capacity
    if capacity is earlier or capacity == earlier:
        return None
    changed: dict[str, Any] = {
        key: amount
        for key, amount in capacity.items()
        if "/" in key and key not in earlier and key not in allocatable
    }
    removed = (key for key in earlier if "/" in key and key not in capacity and key in allocatable)
    changed |= dict.fromkeys(removed)
    return {"allocatable": changed} if changed else None


def _number(address: str) -> int:
    """Return the number of an address from `first_status`; 0 for other addresses."""
    parts = [int(part) for part in address.split(".") if part.isdecimal()]
    if len(parts) != 4 or parts[0] != 10 or parts[1] > 127:
        return 0
    return parts[1] % NODE_NETWORK << 16 | parts[2] << 8 | parts[3]


class NodeAgent:
    """Writes the status of every node, and renews its lease.

    Without `heartbeats`, for simulations of long periods, it writes nothing while nodes are
    healthy. A node then has a lease only while it is stopped, last renewed when it stopped.
    """

    def __init__(self, api: ApiAccess, clock: Clock, *, heartbeats: bool = True) -> None:
        self._api, self._clock = api, clock
        self._heartbeats = heartbeats
        self._nodes: dict[str, Node] = {}
        self._numbers: dict[str, int] = {}
        self._highest = 0
        self._stopped: set[str] = set()
        self._stopping = StopSwitch()

    async def run(self) -> None:
        await self._stopping.guard(self._work())

    def stop(self) -> None:
        self._stopping.set()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            if self._heartbeats:
                tasks.create_task(self._send_heartbeats(), name="NodeAgent.beat")
            while True:
                try:
                    await self._list_and_watch()
                except ApiError as error:
                    if error.code != _GONE:
                        log.warning("A watch failed; listing again", error=error)
                        await self._clock.sleep(_RETRY_NS)

    async def _list_and_watch(self) -> None:
        nodes = await self._api.list(Node)
        self._nodes = {node.metadata.name: node for node in nodes.items}
        for node in nodes.items:
            await self._observe(node)
        async for event in self._api.watch(Node, resource_version=nodes.resource_version):
            if event.object is None:
                continue
            if event.type == "DELETED":
                self._nodes.pop(event.object.metadata.name, None)
                self._stopped.discard(event.object.metadata.name)
            else:
                await self._observe(event.object)

    async def _observe(self, node: Node) -> None:
        name = node.metadata.name
        before = self._nodes.get(name, node)
        self._nodes[name] = node
        if is_stopped(node):
            if name not in self._stopped:
                self._stopped.add(name)
                if not self._heartbeats:
                    await self._renew(node)
            return
        if name in self._stopped:
            self._stopped.remove(name)
            await self._resume(node)
        number = self._number_of(node)
        status = first_status(node, self._clock.now_ns(), number)
        if status is not None:
            await self._patch(node, status)
            if self._heartbeats:
                await self._renew(node)
        elif (system := missing_system_info(node)) is not None and self._heartbeats:
            await self._patch(node, system)
        if (allocatable := allocatable_after_change(node, before)) is not None:
            await self._patch(node, allocatable)

    def _number_of(self, node: Node) -> int:
        """Return a node's number, which determines its address and is unique."""
        name = node.metadata.name
        if name not in self._numbers:
            address = next((each.address for each in node.status.addresses), "")
            self._highest = max(self._highest, _number(address)) if address else self._highest + 1
            self._numbers[name] = _number(address) if address else self._highest
        return self._numbers[name]

    async def _resume(self, node: Node) -> None:
        if self._heartbeats:
            await self._renew(node)
        else:
            try:
                await self._api.delete(Lease, node.metadata.name, LEASE_NAMESPACE)
            except ApiError as error:
                if error.code != _NOT_FOUND:
                    raise
        await self._patch(node, confirmed_status(node, self._clock.now_ns()))

    async def _send_heartbeats(self) -> None:
        turn = 0
        while True:
            await self._clock.sleep(SECOND)
            turn += 1
            for position, (name, node) in enumerate(list(self._nodes.items())):
                if name in self._stopped:
                    continue
                try:
                    if position % _RENEWAL_TURNS == turn % _RENEWAL_TURNS:
                        await self._renew(node)
                    if position % _CONFIRMATION_TURNS == turn % _CONFIRMATION_TURNS:
                        await self._patch(node, confirmed_status(node, self._clock.now_ns()))
                except ApiError as error:
                    log.warning("Could not send a heartbeat", node=name, error=error)

    async def _renew(self, node: Node) -> None:
        name, now = node.metadata.name, format_micro_time(self._clock.now_ns())
        try:
            patch = {"spec": {"renewTime": now, "holderIdentity": name}}
            await self._api.patch(Lease, name, LEASE_NAMESPACE, patch, patch_type="merge")
            return
        except ApiError as error:
            if error.code != _NOT_FOUND:
                raise
        owner = OwnerReference(
            api_version=Node.api_version, kind=Node.kind, name=name, uid=node.metadata.uid
        )
        metadata = ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=(owner,))
        spec = LeaseSpec(
            holder_identity=name, lease_duration_seconds=_LEASE_SECONDS, renew_time=now
        )
        try:
            await self._api.create(Lease(metadata=metadata, spec=spec))
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _EXISTS):
                raise

    async def _patch(self, node: Node, status: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": node.metadata.uid}, "status": status}
        try:
            await self._api.patch(Node, node.metadata.name, None, patch, subresource="status")
        except ApiError as error:
            if error.code not in _FINAL:
                raise
