"""When the queue is flushed (docs/reference/03 §3.4, §5.11)."""

from __future__ import annotations

import asyncio

from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue_flusher import QueueFlusher
from kubesched.testing.objects.builders import make_node, make_pod
from tests.scheduler.backend.queue.queue_harness import QueueHarness

START_NS = 1_700_000_000 * SECOND + 300_000_000  # three tenths into a second


class Recorder(QueueHarness):
    """A queue that notes when it is flushed, in seconds since the start."""

    def __init__(self) -> None:
        super().__init__()
        self.backoff: list[float] = []
        self.unschedulable: list[float] = []
        flush_backoff, flush_unschedulable = (
            self.queue.flush_backoff,
            self.queue.flush_unschedulable,
        )

        def noting_backoff(now_ns: int) -> int:
            self.backoff.append((now_ns - START_NS) / SECOND)
            return flush_backoff(now_ns)

        def noting_unschedulable(now_ns: int) -> int:
            self.unschedulable.append((now_ns - START_NS) / SECOND)
            return flush_unschedulable(now_ns)

        self.queue.flush_backoff = noting_backoff  # type: ignore[method-assign]
        self.queue.flush_unschedulable = noting_unschedulable  # type: ignore[method-assign]


def test_unschedulable_at_once_and_every_thirty_and_nothing_in_between_without_backoffs() -> None:
    harness = Recorder()

    async def main() -> None:
        async with running(QueueFlusher(harness.queue, Cache(), current_clock())):
            await asyncio.sleep(60.5)

    run(main, start_ns=START_NS)
    assert harness.unschedulable == [0, 30, 60]
    assert harness.backoff == [30, 60]


def test_backoff_at_every_whole_second_from_when_a_pod_backs_off() -> None:
    harness = Recorder()

    async def main() -> None:
        clock = current_clock()
        async with running(QueueFlusher(harness.queue, Cache(), clock)):
            await asyncio.sleep(5.1)
            harness.now_ns = clock.now_ns()
            harness.add(make_pod("p"))
            for _ in range(3):  # the penalty doubles: 1 s, 2 s, 4 s
                harness.fail(harness.pop())
                await asyncio.sleep(5)
                harness.now_ns = clock.now_ns()

    run(main, start_ns=START_NS)
    times = [round(time, 3) for time in harness.backoff]
    assert times[:4] == [5.7, 6.7, 10.7, 11.7]
    # From 15.1 on for four seconds, which are cut to whole ones, and then no more.
    assert times[4:] == [12.7, 15.7, 16.7, 17.7, 18.7, 19.7]


def test_a_pod_leaves_its_backoff_at_the_first_whole_second_it_may() -> None:
    harness = Recorder()

    async def main() -> int:
        clock = current_clock()
        ready = asyncio.Event()
        async with running(QueueFlusher(harness.queue, Cache(), clock)):
            harness.now_ns = clock.now_ns()
            harness.add(make_pod("p"))
            harness.fail(harness.pop())
            harness.queue.on_ready = ready.set
            await ready.wait()
            return clock.now_ns()

    # Failed at .3 with a penalty of a second: expiry is cut to the second that begins at .7.
    assert run(main, start_ns=START_NS) == START_NS + 1_700_000_000


def test_the_flusher_ends_at_stop_which_is_idempotent() -> None:
    harness = Recorder()

    async def main() -> None:
        flusher = QueueFlusher(harness.queue, Cache(), current_clock())
        task = asyncio.create_task(flusher.run())
        await asyncio.sleep(2)
        flusher.stop()
        flusher.stop()
        await task

    run(main, start_ns=START_NS)
    assert harness.unschedulable == [0]


def test_the_flusher_applies_changes_that_the_cache_has_logged() -> None:
    """The log refers to deleted pods, and an idle scheduler makes no attempt."""
    cache = Cache()

    async def main() -> int:
        async with running(QueueFlusher(Recorder().queue, cache, current_clock())):
            cache.add_node(make_node("n"))
            cache.add_pod(make_pod("p", node_name="n"))
            await asyncio.sleep(31)
            return len(cache.snapshot)

    assert run(main, start_ns=START_NS) == 1
