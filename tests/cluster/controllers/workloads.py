"""A cluster with controllers, kubelets and a simple binder on virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec

from kubesched.api import ApiError, Node, Pod
from kubesched.cluster.apiserver.local_api import Faults, LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.controllers import Controllers, GarbageCollector
from kubesched.cluster.nodes.container_usage import ContainerUsage
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.cluster.nodes.node_agent import NodeAgent
from kubesched.foundation.util.clock import SECOND, Clock, current_clock
from kubesched.foundation.util.components import StopSwitch, running

T = TypeVar("T", bound=msgspec.Struct)
Json = dict[str, Any]

IMAGE = "nginx"


def workload(name: str, spec: Json, image: str = IMAGE, **pod: Any) -> Json:
    labels = {"app": name}
    containers = [{"name": "c", "image": image, "env": [{"name": "A", "value": "b"}]}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **pod}}
    selector = {"selector": {"matchLabels": labels}}
    return {"metadata": {"name": name}, "spec": {**selector, "template": template, **spec}}


class Binder:
    """Binds every pod to the node that it requests, or to the first node."""

    def __init__(self, api: LocalApi) -> None:
        self._api, self._stopping = api, StopSwitch()
        self.node = "n0"

    async def run(self) -> None:
        await self._stopping.guard(self._work())

    def stop(self) -> None:
        self._stopping.set()

    async def _work(self) -> None:
        async for event in self._api.watch(Pod, resource_version="0"):
            pod = event.object
            if pod is None or event.type == "DELETED" or pod.spec.node_name:
                continue
            with contextlib.suppress(ApiError):
                metadata = pod.metadata
                await self._api.bind(metadata.namespace, metadata.name, "", _node(pod) or self.node)


def _node(pod: Pod) -> str:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return ""
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    return required.node_selector_terms[0].match_fields[0].values[0]


class Workloads:
    def __init__(self, api: LocalApi, clock: Clock) -> None:
        self.api, self.clock = api, clock
        self.binder = Binder(api)

    async def create(self, kind: type[T], document: Json) -> T:
        return await self.api.create_document(kind, "default", document)

    async def node(self, name: str, **spec: Any) -> None:
        await self.api.create_document(Node, None, {"metadata": {"name": name}, "spec": spec})

    async def patch(self, kind: type[T], name: str, patch: Json) -> None:
        await self.api.patch(kind, name, "default", patch, patch_type="merge")

    async def settle(self, seconds: int = 20) -> None:
        await self.clock.sleep(seconds * SECOND)

    async def all(self, kind: type[T]) -> list[T]:
        return list((await self.api.list(kind)).items)

    async def get(self, kind: type[T], name: str) -> T:
        return await self.api.get(kind, name, "default")

    def document(self, kind: type[T], name: str) -> Any:
        return self.api.document(kind, name, "default")

    async def pods(self, condition: Callable[[Pod], bool] = lambda _: True) -> list[Pod]:
        return [pod for pod in await self.all(Pod) if condition(pod)]


@contextlib.asynccontextmanager
async def workloads(
    nodes: int = 1,
    faults: Faults | None = None,
    *,
    heartbeats: bool = False,
    usage: bool = False,
) -> AsyncIterator[Workloads]:
    clock = current_clock()
    store = Store(now_ns=clock.now_ns())
    api = LocalApi(store, clock)
    harness = Workloads(api, clock)
    for number in range(nodes):
        await harness.node(f"n{number}")
    managed = LocalApi(store, clock, faults=faults)
    parts = (
        Controllers(managed, clock, usage=ContainerUsage(store).of if usage else None),
        GarbageCollector(store, clock),
        NodeAgent(api, clock, heartbeats=heartbeats),
        FakeKubelet(api, clock),
        harness.binder,
    )
    async with running(*parts):
        yield harness
    store.check_invariants()
