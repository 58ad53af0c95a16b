"""The parts of a scheduler that a program may replace."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.errors import ConfigError
from kubesched.foundation.client.informer_factory import InformerFactory
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.logging import set_verbosity
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import (
    SUCCESS,
    CycleState,
    Handle,
    NodeInfo,
    Plugin,
    PodInfo,
    PodPart,
    PodsOnNode,
    QueuedPodInfo,
    Reads,
    Status,
)
from kubesched.scheduler.backend.queue import SchedulingQueue
from kubesched.scheduler.config import KubeSchedulerProfile
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.search.schedule_result import ScheduleResult
from kubesched.testing import make_node, make_pod


async def create(api: LocalApi, new: Node | Pod) -> None:
    metadata = replace(new.metadata, resource_version="", uid="")
    await api.create(replace(new, metadata=metadata))


def local_api() -> LocalApi:
    return LocalApi(Store(derive(0, "store")), current_clock())


def enabling(*names: str) -> list[Any]:
    return [{"plugins": {"multiPoint": {"enabled": [{"name": name} for name in names]}}}]


def test_informers_of_the_caller_are_used_and_run_by_the_caller() -> None:
    async def main() -> str:
        api, clock = local_api(), current_clock()
        informers = InformerFactory(api, clock, 0)
        scheduler = Scheduler(api, clock, informer_factory=informers)
        assert scheduler.informers is informers
        await create(api, make_node("n"))
        await create(api, make_pod("p", images=["i"]))
        async with running(scheduler):
            await asyncio.sleep(5)
            assert not scheduler.synced.is_set(), "the informers do not run yet"
            async with running(*informers.components()):
                await asyncio.sleep(5)
                return (await api.get(Pod, "p", "default")).spec.node_name

    assert run(main) == "n"


def test_profiles_are_announced_as_they_will_run() -> None:
    seen: list[KubeSchedulerProfile] = []

    async def main() -> None:
        other = {"schedulerName": "other", "plugins": {"multiPoint": {"enabled": []}}}
        first = {"schedulerName": "first"}
        Scheduler(local_api(), current_clock(), profiles=[first, other], on_profile=seen.append)

    run(main)
    assert [profile.scheduler_name for profile in seen] == ["first", "other"]
    names = [entry.name for entry in seen[0].plugin_config]
    assert names == sorted(names)
    assert "NodeResourcesFit" in names


def test_the_search_for_a_node_can_be_replaced() -> None:
    asked: list[str] = []

    async def main() -> str:
        api, clock = local_api(), current_clock()
        own: list[Scheduler] = []

        def schedule_pod(
            framework: Framework, state: CycleState, pod_info: PodInfo
        ) -> ScheduleResult:
            asked.append(pod_info.pod.metadata.name)
            found = own[0]._search.schedule_pod(framework, state, pod_info)
            found.node_name = "b"
            return found

        scheduler = Scheduler(api, clock, schedule_pod=schedule_pod)
        own.append(scheduler)
        for name in "abc":
            await create(api, make_node(name))
        async with running(scheduler):
            for number in range(4):
                await create(api, make_pod(f"p{number}", images=["i"]))
            await asyncio.sleep(5)
            pods = (await api.list(Pod)).items
        return "".join(pod.spec.node_name for pod in pods)

    assert run(main) == "bbbb"
    assert asked == ["p0", "p1", "p2", "p3"]


def test_the_failure_handler_can_be_replaced() -> None:
    failed: list[tuple[str, str]] = []

    async def main() -> Pod:
        api, clock = local_api(), current_clock()

        def handle(attempt: Attempt, status: Status, _: object) -> None:
            failed.append((attempt.queued.pod.metadata.name, status.message))
            scheduler.queue.done(attempt.queued.pod.metadata.uid)

        scheduler = Scheduler(api, clock, failure_handler=handle)
        async with running(scheduler):
            await create(api, make_pod("p", images=["i"]))
            await asyncio.sleep(60)
            return await api.get(Pod, "p", "default")

    pod = run(main)
    assert failed == [("p", "no nodes available to schedule pods")]
    assert pod.status.conditions == (), "the replaced handler would have written one"


class Curious(Plugin):
    name = "Curious"
    told: list[str] = []

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.informer(Node).add_handler(
            lambda node: Curious.told.append(f"+{node.metadata.name}"),
            on_delete=lambda node, _: Curious.told.append(f"-{node.metadata.name}"),
        )

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS


def test_a_plugin_gets_objects_and_its_handle() -> None:
    async def main() -> Handle:
        api, clock = local_api(), current_clock()
        scheduler = Scheduler(
            api,
            clock,
            profiles=enabling("Curious"),
            out_of_tree_registry={"Curious": Curious},
            extenders=[{"urlPrefix": "http://e", "filterVerb": "f", "ignorable": True}],
            extender_transport=lambda _: None,  # type: ignore[arg-type, return-value]
            kubeconfig="how to connect",
        )
        Curious.told.clear()
        await create(api, make_node("n"))
        task = asyncio.create_task(scheduler.informers.informer(Node).run())
        await asyncio.sleep(1)
        await api.delete(Node, "n")
        await asyncio.sleep(1)
        task.cancel()
        return scheduler.profiles["default-scheduler"].plugins.by_name["Curious"].handle

    handle = run(main)
    assert Curious.told == ["+n", "-n"]
    assert [(each.name, each.is_ignorable) for each in handle.extenders] == [("http://e", True)]
    assert handle.extenders[0].is_interested(make_pod("p"))
    assert handle.kubeconfig == "how to connect"
    assert handle.component_config_version == "kubescheduler.config.k8s.io/v1"


class Closing(Plugin):
    closed: list[str] = []

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0

    def close(self) -> Any:
        Closing.closed.append(self.name)
        if self.name == "Second":
            raise OSError("the file is gone")
        return self._later() if self.name == "Third" else None

    async def _later(self) -> None:
        await asyncio.sleep(1)
        Closing.closed.append("Third, in the end")


def test_plugins_are_closed_in_order_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        names = ("First", "Second", "Third")
        scheduler = Scheduler(
            local_api(),
            current_clock(),
            profiles=enabling(*names),
            out_of_tree_registry=dict.fromkeys(names, Closing),
        )
        Closing.closed.clear()
        async with running(scheduler):
            await asyncio.sleep(1)
            assert Closing.closed == []

    with caplog.at_level(logging.ERROR, logger="kubesched"):
        run(main)
    assert Closing.closed == ["First", "Second", "Third", "Third, in the end"]
    (record,) = caplog.records
    said = record.getMessage()
    assert "Failed to close plugins" in said


class Broken(Plugin):
    name = "Broken"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS

    def events_to_register(self) -> Any:
        raise KeyError("nodes")


def test_a_plugin_whose_events_fail_is_named_in_one_line() -> None:
    async def main() -> None:
        Scheduler(
            local_api(),
            current_clock(),
            profiles=enabling("Broken"),
            out_of_tree_registry={"Broken": Broken},
        )

    with pytest.raises(ConfigError) as caught:
        run(main)
    assert str(caught.value) == "events_to_register of plugin \"Broken\": KeyError: 'nodes'"


ODD = {
    "nothing": (None, "returned None, which is not a Status (is a `return` missing?)"),
    "something else": ("yes", "returned a str, which is not a Status"),
}


@pytest.mark.parametrize(("answer", "want"), ODD.values(), ids=ODD)
def test_the_error_for_a_wrong_result_of_a_filter_names_the_right_type(
    answer: Any, want: str
) -> None:
    assert want in message_of(type("Odd", (Plugin,), {"filter": lambda *_: answer}))


def test_the_error_for_an_async_filter_requires_a_synchronous_one() -> None:
    async def answer(*_: object) -> Status:
        return SUCCESS

    said = message_of(type("Odd", (Plugin,), {"filter": answer}))
    assert "returned a coroutine, which is not a Status (this method must not be `async`)" in said


def message_of(plugin: type[Plugin]) -> str:
    """Return the message of the pod's condition with this plugin enabled."""

    async def main() -> str:
        api, clock = local_api(), current_clock()
        scheduler = Scheduler(
            api, clock, profiles=enabling("Odd"), out_of_tree_registry={"Odd": plugin}
        )
        await create(api, make_node("n"))
        await create(api, make_pod("p", images=["i"]))
        async with running(scheduler):
            await asyncio.sleep(1)
            pod = await api.get(Pod, "p", "default")
        return pod.status.conditions[0].message

    return run(main)


def test_an_error_in_a_plugin_names_its_file_and_line(caplog: pytest.LogCaptureFixture) -> None:
    def unlucky(*_: object) -> Status:
        raise ValueError("no luck")

    line = unlucky.__code__.co_firstlineno + 1
    with caplog.at_level(logging.ERROR, logger="kubesched"):
        message_of(type("Odd", (Plugin,), {"filter": unlucky}))
    assert f"{__file__}:{line} in unlucky" in caplog.text


def test_arguments_default_to_those_of_the_type() -> None:
    class Args(msgspec.Struct):
        limit: int = 3

    class Demanding(msgspec.Struct):
        limit: int

    assert type("P", (Plugin,), {"args_type": Args})().args == Args(3)
    assert type("P", (Plugin,), {"args_type": Demanding})().args is None
    assert type("P", (Plugin,), {})().args is None


OLD = {
    "WithAlgorithmSource": "WithAlgorithmSource was removed: list plugins in profiles",
    "WithFrameworkOutOfTreeRegistry": (
        "WithFrameworkOutOfTreeRegistry was removed: use out_of_tree_registry"
    ),
    "WithParallelism": "did you mean 'parallelism'?",
    "percentage_of_nodes_to_scor": "did you mean 'percentage_of_nodes_to_score'?",
}


@pytest.mark.parametrize("name", OLD)
def test_an_unknown_option_is_reported_with_a_suggestion(name: str) -> None:
    with pytest.raises(TypeError, match=f"has no option '{name}'") as caught:
        Scheduler(None, **{name: 1})  # type: ignore[arg-type]
    assert caught.value.__notes__ == [OLD[name]]


def test_a_filter_whose_answers_are_not_cached_is_called_once_per_node() -> None:
    """Also in an attempt that finds no node, where the reasons are worked out."""
    asked: list[str] = []
    attempts: list[str] = []

    class Never(Plugin):
        name = "Never"
        reads = Reads(
            pod=PodPart.IDENTITY, pods_on_node=PodsOnNode.DETAIL, other_nodes=True, objects=None
        )

        def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: object) -> Status:
            attempts.append(pod_info.pod.metadata.name)
            return SUCCESS

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            asked.append(node.name)
            return Status.unresolvable("never")

    async def main() -> str:
        api, clock = local_api(), current_clock()
        scheduler = Scheduler(
            api, clock, profiles=enabling("Never"), out_of_tree_registry={"Never": Never}
        )
        for name in "abcd":
            await create(api, make_node(name))
        await create(api, make_pod("p", images=["i"]))
        async with running(scheduler):
            await asyncio.sleep(1)
            pod = await api.get(Pod, "p", "default")
        return pod.status.conditions[0].message

    assert "0/4 nodes are available: 4 never." in run(main)
    assert attempts
    assert sorted(asked) == sorted("abcd" * len(attempts))


def test_the_next_pod_is_chosen_by_the_callers_function() -> None:
    taken: list[str] = []

    def noting(queue: SchedulingQueue, now_ns: int, busy: Collection[str]) -> QueuedPodInfo | None:
        queued = queue.pop(now_ns, busy)
        if queued is not None:
            taken.append(queued.pod.metadata.name)
        return queued

    async def main() -> str:
        api, clock = local_api(), current_clock()
        scheduler = Scheduler(api, clock, next_pod=noting)
        await create(api, make_node("n"))
        await create(api, make_pod("p", images=["i"]))
        async with running(scheduler):
            await asyncio.sleep(1)
            return (await api.get(Pod, "p", "default")).spec.node_name

    assert run(main) == "n"
    assert taken == ["p"]


def test_all_plugins_whose_event_registration_fails_are_named() -> None:
    class Silent(Plugin):
        name = "Silent"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            return SUCCESS

        def events_to_register(self) -> None:
            raise RuntimeError("no events")

    class NoEvents(Silent):
        name = "NoEvents"

    async def main() -> None:
        plugins = {"Silent": Silent, "NoEvents": NoEvents}
        with pytest.raises(ConfigError) as caught:
            Scheduler(
                local_api(),
                current_clock(),
                profiles=enabling("Silent", "NoEvents"),
                out_of_tree_registry=plugins,
            )
        assert str(caught.value).split("\n") == [
            f'events_to_register of plugin "{name}": RuntimeError: no events' for name in plugins
        ]

    run(main)


def test_a_plugin_scores_nodes_and_registers_pods_in_pre_bind_by_its_handle() -> None:
    class Taste(Plugin):
        name = "Taste"

        def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
            return 70 if node.name == "a" else 20

    async def main() -> None:
        api = local_api()
        profile = {
            "plugins": {
                "score": {"enabled": [{"name": "Taste", "weight": 2}], "disabled": [{"name": "*"}]}
            }
        }
        scheduler = Scheduler(api, profiles=[profile], out_of_tree_registry={"Taste": Taste})
        for name in "ab":
            await create(api, make_node(name))
        async with running(scheduler):
            await asyncio.sleep(1)
            handle: Handle = scheduler.profiles["default-scheduler"]
            pod, state = make_pod("p"), CycleState()
            nodes = handle.snapshot.nodes
            handle.run_pre_score(state, PodInfo(pod), nodes)
            scores = handle.run_score(state, pod, nodes)
            assert scores.total.tolist() == [140, 40]
            assert scores.by_plugin["Taste"].tolist() == [140, 40]
            task = asyncio.ensure_future(asyncio.sleep(60))
            entry = handle.add_pod_in_pre_bind(pod, task)
            assert handle.pod_in_pre_bind(pod.metadata.uid) is entry
            assert entry.cancel("preempted")
            handle.remove_pod_in_pre_bind(pod.metadata.uid)
            assert handle.pod_in_pre_bind(pod.metadata.uid) is None
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main)


def test_scores_are_logged_by_plugin_and_node(caplog: pytest.LogCaptureFixture) -> None:
    class Taste(Plugin):
        name = "Taste"

        def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
            return 70 if node.name == "a" else 20

    async def main() -> None:
        api, clock = local_api(), current_clock()
        profile = {
            "plugins": {
                "score": {"enabled": [{"name": "Taste", "weight": 2}], "disabled": [{"name": "*"}]}
            }
        }
        scheduler = Scheduler(api, clock, profiles=[profile], out_of_tree_registry={"Taste": Taste})
        for name in "ab":
            await create(api, make_node(name))
        await create(api, make_pod("p", images=["i"]))
        async with running(scheduler):
            await asyncio.sleep(1)

    set_verbosity(10)
    try:
        with caplog.at_level(logging.DEBUG, logger="kubesched"):
            run(main)
    finally:
        set_verbosity(0)
    said = [record.getMessage() for record in caplog.records]
    scored = [line for line in said if "Plugin scored node for pod" in line]
    assert len(scored) == 2
    assert any("plugin=Taste node=a score=140" in line for line in scored), scored
    totals = [line for line in said if "Calculated node's final score for pod" in line]
    assert any("node=b score=40" in line for line in totals), totals
