"""A running scheduler uses another configuration: no pod is lost or bound twice, nothing grows."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import ConfigMap, Node, ObjectMeta, Pod
from kubesched.api import Status as ApiStatus
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import (
    SUCCESS,
    CycleState,
    Handle,
    NodeInfo,
    Plugin,
    PodPart,
    Reads,
    Status,
    Wait,
)
from kubesched.scheduler.config import KubeSchedulerConfiguration
from kubesched.scheduler.options import scheduler_configuration
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from tests.fault_injection.table_sizes import count_table_entries, find_table_leaks

CLOSED = Status.unschedulable("closed for now")


class Gate(Plugin):
    """Gates pods with the label `gate`, and makes those with the label `hold` wait on Permit."""

    name = "Gate"
    instances: list[Gate] = []

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        assert handle is not None
        super().__init__(args, handle)
        self.is_closed = self.is_working = False
        self.nodes_seen: set[str] = set()
        handle.lister(Node).follow(self._note)
        handle.informer(Node).add_handler(on_delete=lambda *_: None)
        self.instances.append(self)

    def _note(self, old: Node | None, new: Node | None) -> None:
        assert not self.is_closed, "a closed plugin gets no changes"
        if new is not None:
            self.nodes_seen.add(new.metadata.name)

    def pre_enqueue(self, pod: Pod) -> Status:
        return CLOSED if "gate" in pod.metadata.labels else SUCCESS

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        return Wait(600 * SECOND) if "hold" in pod.metadata.labels else SUCCESS

    async def work_as_leader(self) -> None:
        self.is_working = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_working = False

    def close(self) -> None:
        self.is_closed = True


class RejectsWithoutEvents(Plugin):
    """Rejects every node, and waits for no event."""

    name = "RejectsWithoutEvents"
    reads = Reads(pod=PodPart.LABELS)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return CLOSED

    def events_to_register(self) -> tuple[()]:
        return ()


class ReadsConfigMaps(Plugin):
    """Prefers no node, and reads a kind that no other plugin reads."""

    name = "ReadsConfigMaps"

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        assert handle is not None
        self.maps = handle.lister(ConfigMap)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if self.maps.get("open", "default") is not None else CLOSED


class BrokenAtStart(Plugin):
    """Cannot be built."""

    name = "BrokenAtStart"

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        raise ConfigError("no connection to the licence server")

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS


class BrokenEvents(Plugin):
    """A plugin whose event registration fails."""

    name = "BrokenEvents"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS

    def events_to_register(self) -> Any:
        raise LookupError("no such table")


PLUGINS = {
    each.name: each
    for each in (Gate, RejectsWithoutEvents, ReadsConfigMaps, BrokenAtStart, BrokenEvents)
}


def profile(*plugins: str, name: str = "default-scheduler", **more: Any) -> dict[str, Any]:
    enabled = [{"name": plugin} for plugin in plugins]
    return {"schedulerName": name, "plugins": {"multiPoint": {"enabled": enabled}}, **more}


def weights(cpu: int) -> dict[str, Any]:
    """Return arguments of NodeResourcesFit that are another profile for every number."""
    resources = [{"name": "cpu", "weight": cpu}]
    strategy = {"type": "LeastAllocated", "resources": resources}
    args = {"scoringStrategy": strategy}
    return {"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}


def configuration(*profiles: dict[str, Any], **more: Any) -> KubeSchedulerConfiguration:
    given = profiles or (profile(),)
    return scheduler_configuration(profiles=given, out_of_tree_registry=PLUGINS, **more)


class Setting:
    """A store and a scheduler on it, which counts its bindings."""

    def __init__(self, first: KubeSchedulerConfiguration) -> None:
        self.bindings: Counter[str] = Counter()
        self.slow_binding_s = 0.0
        self.refused: set[str] = set()
        clock = current_clock()
        self.store = Store(derive(0, "store"), now_ns=clock.now_ns())
        self.api = LocalApi(self.store, clock)
        self.scheduler = self.new_scheduler(first)

    def new_scheduler(self, first: KubeSchedulerConfiguration) -> Scheduler:
        clock = current_clock()
        api = LocalApi(self.store, clock, faults=self._fault)
        return Scheduler(api, clock, configuration=first, out_of_tree_registry=PLUGINS)

    def _fault(self, verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
        if verb == "bind":
            self.bindings[name] += 1
            return Fault(delay_ns=round(self.slow_binding_s * SECOND))
        if kind in self.refused:
            return Fault(error=ApiError(ApiStatus(code=403, reason="Forbidden", message="no")))
        return None

    async def add(self, *objects: Any) -> None:
        for each in objects:
            metadata = replace(each.metadata, resource_version="", uid="")
            await self.api.create(replace(each, metadata=metadata))

    async def nodes_of_pods(self) -> dict[str, str]:
        listed = await self.api.list(Pod)
        return {pod.metadata.name: pod.spec.node_name for pod in listed.items}


def a_pod(name: str, **wishes: Any) -> Pod:
    return make_pod(name, images=["registry.example/app:v1"], **wishes)


@contextlib.asynccontextmanager
async def setting(first: KubeSchedulerConfiguration, nodes: int = 4) -> AsyncIterator[Setting]:
    Gate.instances.clear()
    made = Setting(first)
    await made.add(*(make_node(f"n{number}", cpu="64", pods=110) for number in range(nodes)))
    async with running(made.scheduler):
        await made.scheduler.synced.wait()
        yield made
        made.scheduler.cache.check_invariants()
        made.scheduler.queue.check_invariants()


def many() -> Iterable[KubeSchedulerConfiguration]:
    """Yield 100 configurations, each different from the one before."""
    for number in range(100):
        first = profile("Gate", **weights(1 + number % 7))
        others = [profile("Gate", name="batch")] if number % 3 else []
        yield configuration(
            first,
            *others,
            percentage_of_nodes_to_score=50 * (number % 2),
            pod_initial_backoff_seconds=1 + number % 2,
        )


def test_a_hundred_reloads_under_load_lose_no_pod_and_bind_none_twice() -> None:
    async def main() -> None:
        async with setting(configuration(profile("Gate"), profile("Gate", name="batch"))) as made:
            made.slow_binding_s = 0.7
            replaced: list[weakref.ref[Framework]] = []
            for number, each in enumerate(many()):
                replaced += map(weakref.ref, made.scheduler.profiles.values())
                labels = {"hold": "yes"} if number % 5 == 0 else {}
                name = "batch" if number % 2 else "default-scheduler"
                await made.add(
                    a_pod(
                        f"p{number}", requests={"cpu": "100m"}, labels=labels, scheduler_name=name
                    )
                )
                if number % 4 == 0:
                    await made.add(a_pod(f"huge{number}", requests={"cpu": "100"}))
                await asyncio.sleep(0.05 * (number % 4))
                assert await made.scheduler.reload(each)
                made.scheduler.queue.check_invariants()
            await asyncio.sleep(5)
            for waiting in tuple(made.scheduler.services.waiting_pods):
                waiting.allow("Gate")
            last = configuration(profile("Gate"), profile("Gate", name="batch"))
            await made.scheduler.reload(last)
            await asyncio.sleep(30)
            placed = await made.nodes_of_pods()
            assert [name for name, node in placed.items() if not node and "huge" not in name] == []
            assert [name for name, count in made.bindings.items() if count > 1] == []
            assert {uid.pod.metadata.name for uid in made.scheduler.services.waiting_pods} == set()
            open_plugins = [each for each in Gate.instances if not each.is_closed]
            assert [each for each in Gate.instances if each.is_working] == open_plugins
            assert open_plugins == [
                framework.plugins.by_name["Gate"] for framework in made.scheduler.profiles.values()
            ]
            await assert_nothing_has_grown(made, last)
            gc.collect()
            assert [each() for each in replaced if each() is not None] == []

    run(main)


async def assert_nothing_has_grown(made: Setting, last: KubeSchedulerConfiguration) -> None:
    for pod in (await made.api.list(Pod)).items:
        if not pod.spec.node_name:
            await made.api.delete(Pod, pod.metadata.name, pod.metadata.namespace)
    await asyncio.sleep(400)
    fresh = made.new_scheduler(last)
    async with running(fresh):
        await asyncio.sleep(400)
        sizes, fresh_sizes = count_table_entries(made.scheduler), count_table_entries(fresh)
        assert list(find_table_leaks(sizes, fresh_sizes)) == []
        for old, new in zip(
            made.scheduler.informers.components(), fresh.informers.components(), strict=True
        ):
            counts = (old.kind, old.handler_count, old.store.listener_count)
            assert counts == (new.kind, new.handler_count, new.store.listener_count)
    Gate.instances.clear()


def test_a_pod_on_permit_finishes_with_its_old_profile_which_is_then_closed() -> None:
    async def main() -> None:
        async with setting(configuration(profile("Gate"))) as made:
            await made.add(a_pod("held", labels={"hold": "yes"}))
            await asyncio.sleep(1)
            (gate,) = Gate.instances
            assert await made.scheduler.reload(configuration(profile()))
            await made.add(a_pod("free", labels={"hold": "yes"}))
            await asyncio.sleep(1)
            placed = await made.nodes_of_pods()
            assert placed["free"]
            assert not placed["held"]
            assert not gate.is_closed
            (waiting,) = made.scheduler.services.waiting_pods
            waiting.allow("Gate")
            await asyncio.sleep(1)
            assert (await made.nodes_of_pods())["held"]
            assert gate.is_closed
            assert made.bindings == {"held": 1, "free": 1}

    run(main)


def test_waiting_pods_are_evaluated_by_the_new_plugins() -> None:
    async def main() -> None:
        async with setting(configuration(profile("Gate", "RejectsWithoutEvents"))) as made:
            await made.add(a_pod("gated", labels={"gate": "yes"}), a_pod("rejected"))
            await asyncio.sleep(1)
            assert made.scheduler.queue.lengths() == {
                "active": 0,
                "backoff": 0,
                "unschedulable": 1,
                "gated": 1,
            }
            await made.scheduler.reload(configuration(profile()))
            await asyncio.sleep(5)
            assert all((await made.nodes_of_pods()).values())

    run(main)


def test_a_pod_whose_attempt_fails_with_the_old_profile_is_tried_with_the_new_one() -> None:
    async def main() -> None:
        async with setting(configuration(profile("Gate"))) as made:
            await made.add(a_pod("held", labels={"hold": "yes"}))
            await asyncio.sleep(1)
            await made.scheduler.reload(configuration(profile()))
            (waiting,) = made.scheduler.services.waiting_pods
            waiting.reject("Gate", "no")
            await asyncio.sleep(5)
            assert (await made.nodes_of_pods())["held"]

    run(main)


def test_pods_of_a_removed_profile_leave_and_return_with_it() -> None:
    async def main() -> None:
        both = configuration(profile("RejectsWithoutEvents", name="batch"), profile())
        async with setting(both) as made:
            await made.add(
                a_pod("waits", scheduler_name="batch"), a_pod("later", scheduler_name="new")
            )
            await asyncio.sleep(1)
            await made.scheduler.reload(configuration(profile()))
            assert sum(made.scheduler.queue.lengths().values()) == 0
            await asyncio.sleep(60)
            names = ("default-scheduler", "batch", "new")
            await made.scheduler.reload(configuration(*(profile(name=name) for name in names)))
            await asyncio.sleep(5)
            assert all((await made.nodes_of_pods()).values())
            assert made.bindings == {"waits": 1, "later": 1}

    run(main)


def test_an_unchanged_profile_retains_its_framework_and_cached_answers() -> None:
    async def main() -> None:
        first = configuration(profile("Gate"), profile("Gate", name="batch"))
        async with setting(first) as made:
            assert not await made.scheduler.reload(
                configuration(profile("Gate"), profile("Gate", name="batch"))
            )
            kept = made.scheduler.profiles["default-scheduler"]
            changed = profile("Gate", name="batch", **weights(3))
            assert await made.scheduler.reload(configuration(profile("Gate"), changed))
            assert made.scheduler.profiles["default-scheduler"] is kept
            await asyncio.sleep(1)
            assert [each.is_closed for each in Gate.instances] == [False, True, False]

    run(main)


def test_a_new_plugin_may_read_a_kind_that_nothing_watched() -> None:
    async def main() -> None:
        async with setting(configuration()) as made:
            await made.scheduler.reload(configuration(profile("ReadsConfigMaps")))
            await made.add(a_pod("p"))
            await asyncio.sleep(3)
            assert (await made.nodes_of_pods())["p"] == ""
            await made.add(ConfigMap(metadata=ObjectMeta(name="open", namespace="default")))
            await made.add(make_node("another"))
            await asyncio.sleep(20)
            assert (await made.nodes_of_pods())["p"]

    run(main)


BAD = {
    "a plugin that cannot be built": (
        lambda: configuration(profile("Gate", "BrokenAtStart")),
        "no connection to the licence server",
    ),
    "a plugin whose events cannot be read": (
        lambda: configuration(profile("BrokenEvents")),
        'events_to_register of plugin "BrokenEvents": LookupError: no such table',
    ),
    "another extender": (
        lambda: configuration(extenders=[{"urlPrefix": "http://localhost:1"}]),
        "a change of extenders needs a restart",
    ),
    "another lease and parallelism": (
        lambda: replace(configuration(), parallelism=3, delay_cache_until_active=True),
        "a change of parallelism, delayCacheUntilActive need a restart",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_configuration_changes_nothing(name: str) -> None:
    make, why = BAD[name]

    async def main() -> None:
        first = configuration(profile("Gate"))
        async with setting(first) as made:
            before = dict(made.scheduler.profiles)
            handlers = [
                (i.handler_count, i.store.listener_count)
                for i in made.scheduler.informers.components()
            ]
            with pytest.raises(ConfigError, match=why):
                await made.scheduler.reload(make())
            assert made.scheduler.profiles == before
            assert made.scheduler.configuration == first
            assert [each.is_closed for each in Gate.instances] == [False] + [True] * (
                len(Gate.instances) - 1
            )
            assert handlers == [
                (i.handler_count, i.store.listener_count)
                for i in made.scheduler.informers.components()
            ]
            await made.add(a_pod("p"))
            await asyncio.sleep(1)
            assert (await made.nodes_of_pods())["p"]

    run(main)
