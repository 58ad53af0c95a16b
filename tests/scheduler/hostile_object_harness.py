"""A scheduler whose API server returns invalid objects.

Objects are created normally, and their content is replaced in the watch. Therefore any JSON can be
tested, including objects that the embedded server would refuse.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.cluster.apiserver import LocalApi
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from tests.foundation.client.wire_network import Network

Json = dict[str, Any]


def merged(base: Any, change: Any) -> Any:
    """A merge patch, but for null, which is a value here."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    return base | {key: merged(base.get(key), value) for key, value in change.items()}


Made = TypeVar("Made", Node, Pod)


def fresh(new: Made) -> Made:
    """Return an object as a client creates it: the server sets its identity."""
    return replace(new, metadata=replace(new.metadata, resource_version="", uid=""))


class HostileObjectHarness:
    """A cluster of three nodes, its scheduler, and the false objects that watches deliver."""

    def __init__(self, gates: Mapping[str, bool]) -> None:
        self.network = Network()
        self.api = LocalApi(self.network.store, current_clock())
        self.scheduler = Scheduler(
            self.network.client("scheduler"),
            current_clock(),
            seed=1,
            stream_lists=True,
            feature_gates=FeatureGates(gates),
        )
        self.lies: dict[str, Json] = {}
        self._tickets = itertools.count()
        self.network.mangle = self._mangle

    async def add_node(self, name: str, lie: Json | None = None, **more: Any) -> None:
        await self._create(make_node(name, **more), lie)

    async def add_pod(self, name: str, lie: Json | None = None, **more: Any) -> None:
        """A pod; watches show it with the lie merged into it."""
        await self._create(make_pod(name, images=["i"], **more), lie)

    async def delete_pod(self, name: str) -> None:
        await self.api.delete(Pod, name, "default", grace_period_seconds=0)

    async def node_of(self, name: str) -> str:
        return (await self.api.get(Pod, name, "default")).spec.node_name

    async def until_bound(self, name: str, within_s: float = 30) -> None:
        for _ in range(int(within_s * 10)):
            if await self.node_of(name):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{name} is not bound")

    def ticket(self) -> int:
        """Return a unique number."""
        return next(self._tickets)

    async def _create(self, new: Node | Pod, lie: Json | None) -> None:
        if lie is not None:
            self.lies[new.metadata.name] = lie
        await self.api.create(fresh(new))

    def _mangle(self, target: str, lines: bytes) -> bytes:
        if not self.lies:
            return lines
        told = []
        for line in lines.splitlines():
            event = json.loads(line)
            lie = self.lies.get(event["object"].get("metadata", {}).get("name"))
            if lie is not None:
                event["object"] = merged(event["object"], lie)
            told.append(json.dumps(event).encode() + b"\n")
        return b"".join(told)


GROUPS: Mapping[str, bool] = {"GenericWorkload": True, "GangScheduling": True}


def run_steps(
    steps: Callable[[HostileObjectHarness], Awaitable[None]],
    gates: Mapping[str, bool] | None = None,
) -> None:
    """Run a scenario on virtual time, with the scheduler running."""

    async def main() -> None:
        harness = HostileObjectHarness(gates or {})
        for number in range(3):
            await harness.add_node(f"n{number}", cpu="8", memory="16Gi")
        async with running(harness.scheduler):
            await steps(harness)

    virtual_loop.run(main, seed=1)
