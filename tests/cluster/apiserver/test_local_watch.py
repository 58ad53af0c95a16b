"""A watch with a callback delivers the same events, at the same time, as an iterated watch."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any

import pytest

from kubesched.api import ApiError, Node, ObjectMeta, Status, WatchEvent
from kubesched.api.access import deliver
from kubesched.cluster.apiserver import Fault, LocalApi, Store
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.virtual_loop import run


def make_api(**options: Any) -> LocalApi:
    clock = current_clock()
    faults = options.pop("faults", None)
    return LocalApi(Store(random.Random(0), now_ns=clock.now_ns(), **options), clock, faults=faults)


def node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name))


def told(event: WatchEvent[Node]) -> tuple[str, str]:
    return event.type, "" if event.object is None else event.object.metadata.name


def test_callbacks_and_iteration_get_the_same_events_at_the_same_time() -> None:
    async def main() -> list[tuple[str, tuple[str, str]]]:
        api = make_api()
        heard: list[tuple[str, tuple[str, str]]] = []

        def hear(how: str, event: WatchEvent[Node]) -> None:
            heard.append((how, told(event)))

        async def read() -> None:
            async for event in api.watch(Node, resource_version="1"):
                hear("read", event)

        async def be_called() -> None:
            await deliver(api.watch(Node, resource_version="1"), partial(hear, "called"))

        async with asyncio.TaskGroup() as tasks:
            followers = [tasks.create_task(read()), tasks.create_task(be_called())]
            await asyncio.sleep(0)
            await api.create(node("a"))
            await api.create(node("b"))
            assert heard == []
            await asyncio.sleep(0)
            await api.delete(Node, "a")
            await asyncio.sleep(0)
            for each in followers:
                each.cancel()
        return heard

    heard = run(main())
    both = [("ADDED", "a"), ("ADDED", "b")]
    assert heard == [
        *(("read", each) for each in both),
        *(("called", each) for each in both),
        ("read", ("DELETED", "a")),
        ("called", ("DELETED", "a")),
    ]


def test_initial_objects_come_first() -> None:
    async def main() -> list[tuple[str, str]]:
        api = make_api()
        await api.create(node("a"))
        heard: list[tuple[str, str]] = []
        events = api.watch(Node, resource_version="", send_initial_events=True)
        following = asyncio.create_task(deliver(events, lambda event: heard.append(told(event))))
        await asyncio.sleep(0)
        await api.create(node("b"))
        await asyncio.sleep(0)
        following.cancel()
        return heard

    assert run(main()) == [("ADDED", "a"), ("BOOKMARK", ""), ("ADDED", "b")]


def test_an_error_of_the_store_is_raised_by_deliver() -> None:
    async def main() -> None:
        api = make_api(history=1)
        for number in range(4):
            await api.create(node(f"n{number}"))
        with pytest.raises(ApiError) as refused:
            await deliver(api.watch(Node, resource_version="1"), lambda _: None)
        assert refused.value.code == 410

    run(main())


def test_an_exception_of_the_callback_ends_the_watch() -> None:
    async def main() -> int:
        api = make_api()
        calls = 0

        def fail(_: WatchEvent[Node]) -> None:
            nonlocal calls
            calls += 1
            raise RuntimeError("no")

        following = asyncio.create_task(deliver(api.watch(Node, resource_version="1"), fail))
        await asyncio.sleep(0)
        await api.create(node("a"))
        with pytest.raises(RuntimeError, match="no"):
            await following
        await api.create(node("b"))
        await asyncio.sleep(0)
        return calls

    assert run(main()) == 1


def test_no_callback_after_deliver_has_ended() -> None:
    async def main() -> list[str]:
        api = make_api()
        heard: list[str] = []
        events = api.watch(Node, resource_version="1")
        following = asyncio.create_task(deliver(events, lambda event: heard.append(event.type)))
        await asyncio.sleep(0)
        await api.create(node("a"))  # its delivery is due after the watch has ended
        following.cancel()
        await asyncio.sleep(0)
        await api.create(node("b"))
        await asyncio.sleep(0)
        return heard

    assert run(main()) == []


def test_faults_hit_a_watch_that_calls_too() -> None:
    async def main() -> None:
        broken = ApiError(Status(status="Failure", code=500, message="broken"))
        is_broken = False

        def faults(verb: str, *_: Any) -> Fault | None:
            return Fault(error=broken) if verb == "watch" and is_broken else None

        api = make_api(faults=faults)
        following = asyncio.create_task(
            deliver(api.watch(Node, resource_version="1"), lambda _: None)
        )
        await asyncio.sleep(0)
        is_broken = True
        await api.create(node("a"))
        with pytest.raises(ApiError):
            await following

    run(main())
