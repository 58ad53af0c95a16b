"""What kubelets say about their nodes: that they are ready, and what runs on them.

A node that somebody creates by hand comes without a condition. Here it gets those of a healthy
node once; a condition that somebody sets stays as it is.
"""

from __future__ import annotations

from typing import Any

from kubesched.api import ApiAccess, ApiError, Node
from kubesched.api.time import format_time
from kubesched.util.clock import SECOND, Clock
from kubesched.util.components import StopSwitch
from kubesched.util.logging import get_logger

__all__ = ["NodeAgent", "first_status"]

_GONE = 410
_RETRY_NS = SECOND
_FINAL = frozenset({404, 409, 422})
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("Ready", "True", "KubeletReady"),
)

log = get_logger(__name__)


def first_status(node: Node, now_ns: int) -> dict[str, Any] | None:
    """The status that a node's kubelet writes when it starts; None if it has done so."""
    if any(condition.type == "Ready" for condition in node.status.conditions):
        return None
    now = format_time(now_ns)
    name = node.metadata.name
    return {
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }
            for kind, status, reason in _CONDITIONS
        ],
        "addresses": [{"type": "Hostname", "address": name}],
        "nodeInfo": {
            "kubeletVersion": "v1.36.4",
            "operatingSystem": "linux",
            "architecture": "amd64",
            "osImage": "kubesched",
            "kernelVersion": "none",
            "containerRuntimeVersion": "kubesched://1",
        },
    }


class NodeAgent:
    """Writes the first status of every node."""

    def __init__(self, api: ApiAccess, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._stopping = StopSwitch()

    async def run(self) -> None:
        await self._stopping.guard(self._work())

    def stop(self) -> None:
        self._stopping.set()

    async def _work(self) -> None:
        while True:
            try:
                await self._list_and_watch()
            except ApiError as error:
                if error.code != _GONE:
                    log.warning("Lost sight of nodes, starting over", error=error)
                    await self._clock.sleep(_RETRY_NS)

    async def _list_and_watch(self) -> None:
        nodes = await self._api.list(Node)
        for node in nodes.items:
            await self._report(node)
        async for event in self._api.watch(Node, resource_version=nodes.resource_version):
            if event.object is not None and event.type != "DELETED":
                await self._report(event.object)

    async def _report(self, node: Node) -> None:
        status = first_status(node, self._clock.now_ns())
        if status is None:
            return
        patch = {"metadata": {"uid": node.metadata.uid}, "status": status}
        try:
            await self._api.patch(Node, node.metadata.name, None, patch, subresource="status")
        except ApiError as error:
            if error.code not in _FINAL:
                raise
