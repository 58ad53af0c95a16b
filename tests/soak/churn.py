"""Users of a soak test: they create, change and delete pods, nodes, namespaces and deployments.

All names, labels, resources and topologies are new, which reveals tables that never drop an entry.
Some pods have dozens of selectors, so that tables with a few thousand entries are full after
minutes, and memory that rises later is a leak.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from kubesched.api import Deployment, Namespace, Node, Pod, PriorityClass
from kubesched.api.access import ApiError
from kubesched.errors import KubeschedError
from kubesched.foundation.client.http_api import HttpApi
from kubesched.testing import (
    make_affinity,
    make_container,
    make_node,
    make_pod,
    make_pod_term,
    make_spread,
)

__all__ = ["Churn"]

NODES = 40
_PODS_LIVE_S = 20.0
_DEPLOYMENTS = 4
_CROWD = 40


class Churn:
    """Creates `rate` pods a second, and deletes objects after a time."""

    def __init__(self, api: HttpApi, rng: random.Random, rate: float) -> None:
        self._api, self._rng, self._rate = api, rng, rate
        self._number = 0
        self._pods: list[tuple[float, str, str]] = []
        self._nodes: list[str] = []
        self._namespaces: list[str] = []
        self.created = 0
        self.refused = 0

    async def furnish(self) -> None:
        while len(self._nodes) < NODES:
            await self._add_node()
        urgent = {"metadata": {"name": "urgent"}, "value": 1000}
        await self._try(self._api.create(msgspec.convert(urgent, PriorityClass)))
        for number in range(_DEPLOYMENTS):
            await self._try(self._api.create(_deployment(f"d{number}", 3)))

    async def run(self, stopping: asyncio.Event) -> None:
        tick = 0
        while not stopping.is_set():
            began = time.monotonic()
            tick += 1
            for _ in range(round(self._rate)):
                await self._add_pod()
            await self._remove_old(began - _PODS_LIVE_S)
            if tick % 5 == 0:
                await self._scale(tick)
            if tick % 10 == 0:
                await self._replace_node()
            if tick % 15 == 0:
                await self._replace_namespace()
            await asyncio.sleep(max(0.0, 1 - (time.monotonic() - began)))

    async def finish(self) -> None:
        """Delete the pods that never fit, so that every pod left must get a node."""
        for pod in (await self._api.list(Pod)).items:
            if pod.metadata.labels.get("fits") == "no":
                meta = pod.metadata
                await self._try(
                    self._api.delete(Pod, meta.name, meta.namespace, grace_period_seconds=0)
                )

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _add_pod(self) -> None:
        number = self._next()
        namespace = self._rng.choice(["default", *self._namespaces])
        pod = self._rng.choice(_KINDS)(f"p{number}", number)
        metadata = msgspec.structs.replace(
            pod.metadata, namespace=namespace, resource_version="", uid=""
        )
        if await self._try(self._api.create(msgspec.structs.replace(pod, metadata=metadata))):
            self.created += 1
            self._pods.append((time.monotonic(), namespace, pod.metadata.name))

    async def _remove_old(self, before_s: float) -> None:
        old = [each for each in self._pods if each[0] < before_s]
        for each in old[: 3 * round(self._rate)]:
            gone = self._api.delete(Pod, each[2], each[1], grace_period_seconds=0)
            if await self._try(gone, fine=(404,)):
                self._pods.remove(each)

    async def _scale(self, tick: int) -> None:
        name, replicas = f"d{tick // 5 % _DEPLOYMENTS}", self._rng.randrange(8)
        patch = {"spec": {"replicas": replicas}}
        await self._try(self._api.patch(Deployment, name, "default", patch, patch_type="merge"))

    async def _add_node(self) -> None:
        number = self._next()
        node = make_node(
            f"n{number}",
            cpu="16",
            memory="64Gi",
            labels={"zone": f"zone-{number}", f"example.com/label-{number}": str(number)},
        )
        metadata = msgspec.structs.replace(node.metadata, resource_version="", uid="")
        if await self._try(self._api.create(msgspec.structs.replace(node, metadata=metadata))):
            self._nodes.append(node.metadata.name)

    async def _replace_node(self) -> None:
        await self._add_node()
        if len(self._nodes) > NODES and await self._try(
            self._api.delete(Node, self._nodes[0]), fine=(404,)
        ):
            self._nodes.pop(0)

    async def _replace_namespace(self) -> None:
        name = f"ns{self._next()}"
        body: Any = msgspec.convert({"metadata": {"name": name}}, Namespace)
        if await self._try(self._api.create(body)):
            self._namespaces.append(name)
        if len(self._namespaces) > 3:
            gone = self._namespaces.pop(0)
            self._pods = [each for each in self._pods if each[1] != gone]
            await self._try(self._api.delete(Namespace, gone))

    async def _try(self, request: Awaitable[Any], fine: tuple[int, ...] = ()) -> bool:
        """Return whether a request succeeded. Users count failures and go on."""
        try:
            async with asyncio.timeout(3):
                await request
        except ApiError as error:
            if error.status.code in fine:
                return True
            self.refused += 1
            return False
        except (KubeschedError, TimeoutError):
            self.refused += 1
            return False
        return True


def _plain(name: str, number: int) -> Pod:
    return make_pod(name, requests={"cpu": "50m"}, images=[f"image-{number}"])


def _spread(name: str, number: int) -> Pod:
    labels = {"app": f"spread-{number // 40}"}
    constraint = make_spread("zone", labels=labels, when="ScheduleAnyway")
    return make_pod(name, labels=labels, spread=[constraint], images=["i"])


def _apart(name: str, number: int) -> Pod:
    labels = {"one-of": str(number // 3)}
    apart = make_affinity(apart=[make_pod_term("zone", labels)])
    return make_pod(name, labels=labels, affinity=apart, images=["i"])


def _crowded(name: str, number: int) -> Pod:
    """Make a pod that adds many entries to the caches of a scheduler."""
    terms = [make_pod_term("zone", {"crowd": f"{number}-{each}"}) for each in range(_CROWD)]
    affinity = make_affinity(apart_preferred=[(1, term) for term in terms])
    labels = {f"example.com/key-{number}-{each}": f"{number}" for each in range(_CROWD)}
    return make_pod(name, labels=labels, affinity=affinity, images=["i"])


def _port(name: str, number: int) -> Pod:
    return make_pod(name, host_ports=[10_000 + number % 20_000], images=["i"])


def _urgent(name: str, number: int) -> Pod:
    pod = make_pod(name, requests={"cpu": "200m"}, images=["i"])
    spec = msgspec.structs.replace(pod.spec, priority_class_name="urgent")
    return msgspec.structs.replace(pod, spec=spec)


def _too_large(name: str, number: int) -> Pod:
    return make_pod(name, labels={"fits": "no"}, requests={"cpu": "1000"}, images=["i"])


def _odd_resource(name: str, number: int) -> Pod:
    amounts = {f"example.com/device-{number}": "1"}
    container = make_container(image="i", requests=amounts, limits=amounts)
    return make_pod(name, labels={"fits": "no"}, containers=[container])


_KINDS: Final[Sequence[Callable[[str, int], Pod]]] = (
    *([_plain] * 5),
    *(_spread, _apart, _crowded, _port, _urgent, _too_large, _odd_resource),
)


def _deployment(name: str, replicas: int) -> Deployment:
    labels = {"app": name}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "20m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    document = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    return msgspec.convert(document, Deployment)
