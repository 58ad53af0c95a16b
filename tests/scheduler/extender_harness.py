"""A cluster on virtual time whose scheduler calls fake extenders."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from kubesched.api import (
    Container,
    EventsEvent,
    Node,
    ObjectMeta,
    Pod,
    PriorityClass,
    ResourceRequirements,
)
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MILLISECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.framework import Plugin
from kubesched.scheduler.config import default_configuration
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES
from kubesched.scheduler.config.types import ExtenderConfig, PluginRef
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from kubesched.testing.fakes.fake_extender import FakeExtender

__all__ = ["FOO", "ExtenderHarness", "Gate", "a_pod", "cluster_with", "nodes", "run"]

FOO = "example.com/foo"


def a_pod(name: str, *, cpu: str = "100m", foo: int = 0, **wishes: Any) -> Pod:
    """Make a pod that an API server accepts; `foo` is its request of the managed resource."""
    amounts = {"cpu": cpu, **({FOO: str(foo)} if foo else {})}
    resources = ResourceRequirements(requests=amounts, limits={FOO: str(foo)} if foo else {})
    container = Container(name="c", image="registry.example/app:v1", resources=resources)
    return make_pod(name, containers=[container], **wishes)


def nodes(*names: str, cpu: str = "1") -> list[Node]:
    return [make_node(name, cpu=cpu) for name in names]


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    virtual_loop.run(work)


class Gate:
    """A verb that responds only after it is opened; `waiting` lists the waiting calls."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self._answer = answer
        self.opened = asyncio.Event()
        self.waiting: list[str] = []

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        self.waiting.append(arguments["Pod"]["metadata"]["name"])
        await self.opened.wait()
        return self._answer(arguments)


class ExtenderHarness:
    """A store, a scheduler with extenders, and access to their state for a test."""

    def __init__(
        self,
        extenders: Sequence[tuple[FakeExtender, ExtenderConfig]],
        plugins: Sequence[type[Plugin]] = (),
        **options: Any,
    ) -> None:
        self.clock = current_clock()
        self.filled: list[str] = []  # names of pods that a test put on nodes before
        self.api = LocalApi(Store(derive(0, "store"), now_ns=self.clock.now_ns()), self.clock)
        by_url = {settings.url_prefix: fake for fake, settings in extenders}
        configuration = default_configuration(options.get("feature_gates", DEFAULT_FEATURE_GATES))
        profile = configuration.profiles[0]
        point = profile.plugins.multi_point
        enabled = (*point.enabled, *(PluginRef(cls.name) for cls in plugins))
        profile = replace(
            profile, plugins=replace(profile.plugins, multi_point=replace(point, enabled=enabled))
        )
        self.scheduler = Scheduler(
            LocalApi(self.api.store, self.clock, faults=self._takes_a_moment),
            self.clock,
            configuration=replace(configuration, profiles=(profile,)),
            extenders=[settings for _, settings in extenders],
            extender_transport=lambda settings: by_url[settings.url_prefix].transport(settings),
            out_of_tree_registry={cls.name: cls for cls in plugins},
            **options,
        )

    def _takes_a_moment(self, verb: str, *_: object) -> Fault | None:
        is_write = verb in ("patch", "delete", "bind")
        return Fault(delay_ns=5 * MILLISECOND) if is_write else None

    @property
    def metrics(self) -> SchedulerMetrics:
        return self.scheduler.services.metrics

    async def add(self, *objects: Node | Pod) -> None:
        for each in objects:
            metadata = replace(each.metadata, resource_version="", uid="")
            await self.api.create(replace(each, metadata=metadata))

    async def add_priority_class(self, name: str, value: int) -> None:
        await self.api.create(PriorityClass(metadata=ObjectMeta(name=name), value=value))

    async def pod(self, name: str) -> Pod:
        return await self.api.get(Pod, name, "default")

    async def node_of(self, name: str) -> str:
        return (await self.pod(name)).spec.node_name

    async def delete_pod(self, name: str) -> None:
        await self.api.delete(Pod, name, "default", grace_period_seconds=0)

    async def settle(self, seconds: float = 0.5) -> None:
        await asyncio.sleep(seconds)
        self.scheduler.cache.check_invariants()
        self.scheduler.queue.check_invariants()

    async def notes(self, name: str) -> list[str]:
        """Return the events of a pod, oldest first."""
        listed = await self.api.list(EventsEvent, "default")
        return [event.note for event in listed.items if event.regarding.name == name]

    async def condition(self, name: str) -> tuple[str, str] | None:
        """Return the reason and message of the pod's PodScheduled condition."""
        for each in (await self.pod(name)).status.conditions:
            if each.type == "PodScheduled":
                return each.reason, each.message
        return None


@contextlib.asynccontextmanager
async def cluster_with(
    *extenders: FakeExtender | tuple[FakeExtender, ExtenderConfig], **options: Any
) -> AsyncIterator[ExtenderHarness]:
    """Run a cluster; extenders get separate addresses unless their settings name one."""
    pairs = [
        each if isinstance(each, tuple) else (each, each.settings(f"/{number}"))
        for number, each in enumerate(extenders)
    ]
    harness = ExtenderHarness(pairs, **options)
    async with running(harness.scheduler):
        yield harness
