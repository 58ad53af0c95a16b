"""Informers and the event recorder against the embedded API server, on virtual time."""

from __future__ import annotations

import asyncio
import random
import weakref

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.access import ApiError
from kubesched.api.events import Event
from kubesched.api.meta import ObjectMeta, Status
from kubesched.api.node import Node
from kubesched.api.pod import Container, Pod, PodSpec, PodStatus
from kubesched.cluster.apiserver import Fault, LocalApi, Store
from kubesched.foundation.client import (
    NON_TERMINAL_PODS,
    EventBroadcaster,
    InformerFactory,
    SharedInformer,
)
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run


def make_pod(name: str, labels: dict[str, str] | None = None) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", labels=labels or {}),
        spec=PodSpec(containers=(Container(name="c", image="i"),)),
    )


def test_a_pod_that_ends_arrives_as_a_deletion() -> None:
    async def main() -> list[str]:
        api = LocalApi(Store(random.Random(0)), current_clock())
        factory = InformerFactory(api, current_clock(), 0, options={Pod: NON_TERMINAL_PODS})
        heard: list[str] = []
        factory.informer(Pod).add_handler(
            lambda new: heard.append(f"+{new.metadata.name} {new.status.phase}"),
            lambda old, new: heard.append(f"{old.status.phase}>{new.status.phase}"),
            lambda old, unknown: heard.append(f"-{old.metadata.name} {unknown}"),
        )
        async with running(*factory.components()):
            await factory.wait_for_sync()
            pod = await api.create(make_pod("a"))
            for phase in ("Running", "Succeeded"):
                status = msgspec.structs.replace(pod.status, phase=phase)
                pod = await api.update(
                    msgspec.structs.replace(pod, status=status), subresource="status"
                )
                await asyncio.sleep(1)
            assert len(factory.lister(Pod)) == 0
        return heard

    assert run(main) == ["+a Pending", "Pending>Running", "-a False"]


def test_several_kinds_sync_side_by_side() -> None:
    async def main() -> tuple[int, int]:
        api = LocalApi(Store(random.Random(0)), current_clock())
        for number in range(1_200):
            await api.create(Node(metadata=ObjectMeta(name=f"n{number}")))
        await api.create(make_pod("a"))
        factory = InformerFactory(api, current_clock(), 0)
        nodes, pods = factory.lister(Node), factory.lister(Pod)
        async with running(*factory.components()):
            await factory.wait_for_sync()
        return len(nodes), len(pods)

    assert run(main) == (1_200, 1)


def test_repeated_events_become_a_series_on_the_server() -> None:
    async def main() -> tuple[list[Event], str]:
        clock = current_clock()
        api = LocalApi(Store(random.Random(0)), clock)
        pod = await api.create(make_pod("a"))
        broadcaster = EventBroadcaster(api, clock, random.Random(0))
        recorder = broadcaster.recorder("default-scheduler", "vm")
        async with running(broadcaster):
            await asyncio.sleep(1)
            for _ in range(3):
                recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", "no nodes")
                await asyncio.sleep(1)
            await broadcaster.drain()
            stored = await api.list(Event)
        return list(stored.items), pod.metadata.uid

    [event], uid = run(main)
    assert event.series is not None
    assert event.series.count == 2
    assert event.reporting_instance == "default-scheduler-vm"
    assert event.regarding.uid == uid


UNREACHABLE = ApiError(Status(status="Failure", code=0, message="connection refused"))
BROKEN = ApiError(Status(status="Failure", code=500, message="internal error"))
BUSY = ApiError(Status(status="Failure", code=429, message="too many requests"))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_an_informer_catches_up_whatever_the_faults(seed: int) -> None:
    async def main() -> None:
        clock, dice = current_clock(), random.Random(seed)
        faulty = True

        def faults(verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
            if not faulty or verb not in ("list", "watch"):
                return None
            error = dice.choice([None, None, UNREACHABLE, BROKEN, BUSY])
            return Fault(delay_ns=dice.randrange(10**9), error=error)

        store = Store(random.Random(seed), history=5)
        quiet, api = LocalApi(store, clock), LocalApi(store, clock, faults=faults)
        informer = SharedInformer(api, Pod, clock, random.Random(seed))
        replica: dict[str, Pod] = {}

        def delete(old: Pod, unknown: bool) -> None:
            del replica[old.metadata.name]

        informer.add_handler(
            lambda new: replica.__setitem__(new.metadata.name, new),
            lambda old, new: replica.__setitem__(new.metadata.name, new),
            delete,
        )
        async with running(informer):
            for _ in range(dice.randrange(60)):
                await change_something(quiet, dice)
                await asyncio.sleep(dice.choice([0, 0, 0.1, 3]))
            faulty = False
            await asyncio.sleep(300)
            stored = {pod.metadata.name: pod for pod in (await quiet.list(Pod)).items}
            assert {pod.metadata.name: pod for pod in informer.store.list()} == stored
            assert replica == stored

    async def change_something(api: LocalApi, dice: random.Random) -> None:
        name = dice.choice("abcd")
        present = {pod.metadata.name: pod for pod in (await api.list(Pod)).items}
        if name not in present:
            await api.create(make_pod(name))
        elif dice.random() < 0.4:
            await api.delete(Pod, name, "default", grace_period_seconds=0)
        else:
            status = PodStatus(phase="Running", pod_ip=f"10.0.0.{dice.randrange(250)}")
            changed = msgspec.structs.replace(present[name], status=status)
            await api.update(changed, subresource="status")

    run(main, seed=seed)


def test_a_list_may_come_as_the_beginning_of_a_watch() -> None:
    async def main() -> tuple[list[str], list[str]]:
        calls: list[str] = []

        def note(verb: str, *_: object) -> Fault | None:
            calls.append(verb)
            return None

        store = Store(random.Random(0))
        api = LocalApi(store, current_clock())
        for name in ("a", "b"):
            await api.create(make_pod(name))
        informer = SharedInformer(
            LocalApi(store, current_clock(), faults=note),
            Pod,
            current_clock(),
            random.Random(1),
            stream_lists=True,
        )
        heard: list[str] = []
        informer.add_handler(
            lambda new: heard.append(f"+{new.metadata.name}"),
            None,
            lambda old, unknown: heard.append(f"-{old.metadata.name} {unknown}"),
        )
        async with running(informer):
            await informer.wait_for_sync()
            assert heard == ["+a", "+b"]
            await api.create(make_pod("c"))
            await api.delete(Pod, "a", "default", grace_period_seconds=0)
            await asyncio.sleep(1)
        return heard, calls

    heard, calls = run(main)
    assert heard == ["+a", "+b", "+c", "-a False"]
    assert set(calls) == {"watch"}


def test_a_transform_is_applied_to_a_streamed_list() -> None:
    def marked(seen: Pod, before: Pod | None) -> Pod:
        mark = "new" if before is None else "known"
        return msgspec.structs.replace(
            seen, metadata=msgspec.structs.replace(seen.metadata, labels={"mark": mark})
        )

    async def main() -> list[str]:
        api = LocalApi(Store(random.Random(0)), current_clock())
        created = await api.create(make_pod("a"))
        informer = SharedInformer(
            api, Pod, current_clock(), random.Random(1), transform=marked, stream_lists=True
        )
        marks: list[str] = []
        informer.add_handler(
            lambda new: marks.append(new.metadata.labels["mark"]),
            lambda _, new: marks.append(new.metadata.labels["mark"]),
        )
        async with running(informer):
            await informer.wait_for_sync()
            running_pod = msgspec.structs.replace(created, status=PodStatus(phase="Running"))
            await api.update(running_pod, subresource="status")
            await asyncio.sleep(1)
        return marks

    assert run(main) == ["new", "known"]


@pytest.mark.parametrize("stream_lists", [False, True], ids=["listed", "streamed"])
def test_replaced_versions_are_freed(stream_lists: bool) -> None:
    class Labels(dict[str, str]):
        """A dict that can be watched."""

    seen: list[weakref.ref[Labels]] = []

    def labelled(pod: Pod, _: Pod | None) -> Pod:
        labels = Labels()
        seen.append(weakref.ref(labels))
        return msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels)
        )

    async def main() -> list[bool]:
        api = LocalApi(Store(random.Random(0)), current_clock())
        created = await api.create(make_pod("a"))
        informer = SharedInformer(
            api,
            Pod,
            current_clock(),
            random.Random(1),
            transform=labelled,
            stream_lists=stream_lists,
        )
        async with running(informer):
            await informer.wait_for_sync()
            running_pod = msgspec.structs.replace(created, status=PodStatus(phase="Running"))
            await api.update(running_pod, subresource="status")
            await asyncio.sleep(1)
            await api.create(make_pod("b"))
            await asyncio.sleep(1)
            return [each() is not None for each in seen]

    assert run(main) == [False, True, True]


@pytest.mark.parametrize("code", [422, 500, 0, 410])
def test_a_server_without_streamed_lists_is_listed_and_an_unavailable_one_retried(
    code: int,
) -> None:
    async def main() -> list[str]:
        calls: list[str] = []

        def refuse_once(verb: str, *_: object) -> Fault | None:
            calls.append(verb)
            if len(calls) == 1:
                return Fault(error=ApiError(Status(code=code, message="no")))
            return None

        api = LocalApi(Store(random.Random(0)), current_clock(), faults=refuse_once)
        informer = SharedInformer(api, Pod, current_clock(), random.Random(1), stream_lists=True)
        async with running(informer):
            await informer.wait_for_sync()
        return calls

    assert ("list" in run(main)) == (code in (422, 500))
