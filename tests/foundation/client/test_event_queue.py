from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kubesched.api.reference import ObjectReference
from kubesched.foundation.client.event_queue import EventQueue
from kubesched.foundation.client.event_series import EventKey, EventSeriesCache, Sending
from kubesched.foundation.util.virtual_loop import run


def event(name: str) -> Sending:
    about = ObjectReference(kind="Pod", namespace="default", name=name)
    key = EventKey("Normal", "Binding", "Scheduled", "scheduler", "scheduler-0", about, None)
    return EventSeriesCache().add(key, name, "", 0)


class Senders:
    """Senders with given durations per event, and a log of which sender took which event."""

    def __init__(self, queue: EventQueue, count: int, takes_s: float = 0) -> None:
        self._queue, self._takes_s = queue, takes_s
        self.took: list[tuple[int, str, float]] = []
        self.tasks = [asyncio.create_task(self._run(number)) for number in range(count)]

    async def _run(self, number: int) -> None:
        while True:
            sending, _ = await self._queue.get()
            now_s = asyncio.get_running_loop().time()
            self.took.append((number, sending.recorded.name, now_s))
            if self._takes_s:
                await asyncio.sleep(self._takes_s)
            self._queue.done()

    def stop(self) -> None:
        for task in self.tasks:
            task.cancel()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_burst_is_sent_in_order_by_one_sender_where_sending_takes_no_time() -> None:
    async def scenario() -> None:
        queue = EventQueue(10)
        senders = Senders(queue, 3)
        await settled()
        for name in "abcde":
            queue.put(event(name), 0)
        await queue.join()
        assert [name for _, name, _ in senders.took] == list("abcde")
        assert len({number for number, _, _ in senders.took}) == 1
        senders.stop()

    run(scenario)


def test_all_senders_work_where_sending_takes_time() -> None:
    async def scenario() -> None:
        queue = EventQueue(10)
        senders = Senders(queue, 3, takes_s=1)
        await settled()
        began_s = asyncio.get_running_loop().time()
        for name in "abcdef":
            queue.put(event(name), 0)
        await queue.join()
        assert [name for _, name, _ in senders.took] == list("abcdef")
        assert [at_s - began_s for _, _, at_s in senders.took] == [0, 0, 0, 1, 1, 1]
        senders.stop()

    run(scenario)


def test_an_event_of_a_cancelled_sender_wakes_another_sender() -> None:
    async def scenario() -> None:
        queue = EventQueue(10)
        senders = Senders(queue, 2)
        await settled()
        queue.put(event("a"), 0)
        senders.tasks[0].cancel()  # it was woken and has not had its turn
        await queue.join()
        assert [(number, name) for number, name, _ in senders.took] == [(1, "a")]
        senders.stop()

    run(scenario)


def test_a_sender_that_is_cancelled_while_it_waits_is_not_woken_later() -> None:
    async def scenario() -> None:
        queue = EventQueue(10)
        senders = Senders(queue, 2)
        await settled()
        senders.tasks[0].cancel()
        await settled()
        queue.put(event("a"), 0)
        await queue.join()
        assert [number for number, _, _ in senders.took] == [1]
        senders.stop()

    run(scenario)


def test_an_event_arriving_during_a_cancellation_wakes_another_sender() -> None:
    async def scenario() -> None:
        queue = EventQueue(10)
        senders = Senders(queue, 2)
        await settled()
        senders.tasks[0].cancel()  # which has not run yet when the event arrives
        queue.put(event("a"), 0)
        await queue.join()
        assert [number for number, _, _ in senders.took] == [1]
        assert senders.tasks[0].cancelled()
        senders.stop()

    run(scenario)


def test_a_full_queue_is_logged() -> None:
    async def scenario() -> None:
        queue = EventQueue(2)
        queue.put(event("a"), 0)
        assert not queue.is_full
        queue.put(event("b"), 0)
        assert queue.is_full
        assert len(queue) == 2

    run(scenario)


def test_join_waits_for_what_was_taken_as_well() -> None:
    async def scenario() -> None:
        queue = EventQueue(2)
        queue.put(event("a"), 0)
        await queue.get()
        joining: Coroutine[Any, Any, None] = queue.join()
        task = asyncio.create_task(joining)
        await settled()
        assert not task.done()
        queue.done()
        await task

    run(scenario)
