from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.access import ApiError, ObjectList, WatchEvent
from kubesched.api.meta import Status
from kubesched.api.pod import Pod
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util.clock import (
    MILLISECOND,
    MINUTE,
    SECOND,
    ManualClock,
    current_clock,
)
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from tests.foundation.client.fake_api_server import FakeApiServer, failure, pod

SpecSteps = Callable[[FakeApiServer, SharedInformer[Pod], list[str]], Awaitable[None]]


def named(shown: Pod) -> str:
    return f"{shown.metadata.name}@{shown.metadata.resource_version}"


def listen(informer: SharedInformer[Pod]) -> list[str]:
    """Note every change as `+new`, `old>new`, `-old`, or `-?old` when the deletion was missed."""
    heard: list[str] = []
    informer.add_handler(
        lambda new: heard.append(f"+{named(new)}"),
        lambda old, new: heard.append(f"{named(old)}>{named(new)}"),
        lambda old, unknown: heard.append(f"-{'?' * unknown}{named(old)}"),
    )
    return heard


def make_informer(server: FakeApiServer) -> SharedInformer[Pod]:
    return SharedInformer(server.access, Pod, current_clock(), random.Random(1))


def run_steps(steps: SpecSteps, server: FakeApiServer | None = None) -> list[str]:
    """Run a scenario with a running informer on virtual time; return the calls of its handlers."""

    async def main() -> list[str]:
        stage = server or FakeApiServer()
        informer = make_informer(stage)
        heard = listen(informer)
        async with running(informer):
            await steps(stage, informer, heard)
        return heard

    return run(main)


async def elapsed_s() -> float:
    return current_clock().monotonic_ns() / SECOND


def test_lists_then_watches_from_the_lists_version() -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        server.put("a")
        await informer.wait_for_sync()
        assert heard == ["+a@11"]
        server.put("a")
        server.put("b")
        server.remove("a")
        await asyncio.sleep(1)
        assert server.verbs() == ["list", "watch"]
        assert server.watched_from() == ["11"]
        assert informer.store.get("b", "default") == pod("b", version=13)
        assert informer.resource_version == "14"

    assert run_steps(steps) == ["+a@11", "a@11>a@12", "+b@13", "-a@14"]


def test_events_older_than_the_copy_are_ignored() -> None:
    """A watch that begins too early would restore deleted objects.

    Pods would be removed from their nodes. Found by tests.fault_injection, seed 13: the scheduler
    ended with a corrupted cache.
    """

    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        server.put("a")
        await informer.wait_for_sync()
        server.put("a")
        server.put("b")
        server.remove("b")
        await asyncio.sleep(1)
        before = list(heard)
        server.say(WatchEvent("ADDED", pod("a", version=11), "11"))
        server.say(WatchEvent("ADDED", pod("b", version=13), "13"))
        server.say(WatchEvent("BOOKMARK", None, "12"))
        await asyncio.sleep(1)
        assert heard == before
        assert informer.resource_version == "14"
        server.put("a")
        await asyncio.sleep(1)
        assert heard[len(before) :] == ["a@12>a@15"]

    run_steps(steps)


def test_an_informer_syncs_after_its_first_list_even_if_it_is_empty() -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        assert not informer.has_synced
        await informer.wait_for_sync()
        assert informer.has_synced
        assert len(informer.store) == 0

    assert run_steps(steps) == []


def test_reads_long_lists_page_by_page() -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        await informer.wait_for_sync()
        lists = [options for verb, options in server.calls if verb == "list"]
        limits = [(options["limit"], bool(options["continue_token"])) for options in lists]
        assert limits == [(500, False), (500, True), (500, True)]

    server = FakeApiServer()
    for number in range(1_234):
        server.put(f"p{number}")
    heard = run_steps(steps, server)
    assert heard == [f"+p{number}@{number + 11}" for number in range(1_234)]


def test_a_list_that_expires_half_way_is_requested_in_one_piece() -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        server.fail("page", failure(410))
        await informer.wait_for_sync()
        assert [options["limit"] for _, options in server.calls if "limit" in options] == [
            500,
            500,
            0,
        ]
        assert await elapsed_s() < 0.1

    server = FakeApiServer()
    for number in range(600):
        server.put(f"p{number}")
    assert len(run_steps(steps, server)) == 600


def test_selectors_and_namespace_are_repeated_on_every_request() -> None:
    async def main() -> None:
        server = FakeApiServer()
        informer = SharedInformer(
            server.access,
            Pod,
            current_clock(),
            random.Random(1),
            field_selector="status.phase!=Failed",
            label_selector="app=web",
            namespace="prod",
        )
        async with running(informer):
            await asyncio.sleep(5)
            server.end_watches()
            await asyncio.sleep(5)
        assert server.verbs() == ["list", "watch", "watch"]
        for _, options in server.calls:
            assert options["namespace"] == "prod"
            assert options["field_selector"] == "status.phase!=Failed"
            assert options["label_selector"] == "app=web"

    run(main)


def test_a_transform_is_applied_before_handlers_are_called() -> None:
    def note_version_before(seen: Pod, before: Pod | None) -> Pod:
        uid = "none" if before is None else before.metadata.resource_version
        return msgspec.structs.replace(
            seen, metadata=msgspec.structs.replace(seen.metadata, uid=uid)
        )

    async def main() -> tuple[list[str], list[str]]:
        server = FakeApiServer()
        server.put("a")
        informer = SharedInformer(
            server.access,
            Pod,
            current_clock(),
            random.Random(1),
            transform=note_version_before,
        )
        uids: list[str] = []
        informer.add_handler(
            lambda new: uids.append(new.metadata.uid), lambda _, new: uids.append(new.metadata.uid)
        )
        async with running(informer):
            await informer.wait_for_sync()
            server.put("a")
            server.put("b")
            await asyncio.sleep(1)
        return uids, [kept.metadata.uid for kept in informer.store.list()]

    assert run(main) == (["none", "11", "none"], ["11", "none"])


class TestWatchEnds:
    def test_a_watch_that_ends_normally_is_resumed_without_a_list(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            await asyncio.sleep(360)
            server.end_watches()
            server.put("a")
            await asyncio.sleep(0.1)
            assert heard == ["+a@11"]
            assert server.verbs() == ["list", "watch", "watch"]

        run_steps(steps)

    def test_a_bookmark_moves_the_place_to_resume_from(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            await asyncio.sleep(5)
            server.bookmark()
            await asyncio.sleep(5)
            assert informer.resource_version == "11"
            server.forget_history()
            server.end_watches()
            server.put("a")
            await asyncio.sleep(1)
            assert server.watched_from() == ["10", "11"]
            assert heard == ["+a@12"]

        run_steps(steps)

    def test_an_end_within_a_second_without_events_leads_to_a_new_list_after_a_pause(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            await asyncio.sleep(0.5)
            server.end_watches()
            await asyncio.sleep(0.5)
            assert server.verbs() == ["list", "watch"]
            await asyncio.sleep(1.7)
            assert server.verbs() == ["list", "watch", "list", "watch"]

        run_steps(steps)

    def test_an_end_within_a_second_with_events_is_a_normal_one(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            await asyncio.sleep(0.5)
            server.put("a")
            server.end_watches()
            await asyncio.sleep(0.1)
            assert server.verbs() == ["list", "watch", "watch"]

        run_steps(steps)

    def test_a_version_too_old_leads_to_a_new_list_and_missed_deletions_come_first(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            for name in ("gone", "changed", "same"):
                server.put(name)
            await asyncio.sleep(5)
            heard.clear()
            server.end_watches()
            server.remove("gone")
            server.put("changed")
            server.put("new")
            server.forget_history()
            await asyncio.sleep(0.5)
            assert heard == []  # a pause of at least 0.8 s
            await asyncio.sleep(1.5)
            assert server.verbs() == ["list", "watch", "watch", "list", "watch"]

        assert run_steps(steps) == [
            "-?gone@11",
            "changed@12>changed@15",
            "same@13>same@13",
            "+new@16",
        ]

    def test_an_object_recreated_between_watches_is_reported_as_an_update(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            server.put("a", uid="one")
            await asyncio.sleep(5)
            server.end_watches()
            server.remove("a")
            server.put("a", uid="two")
            server.forget_history()
            await asyncio.sleep(5)

        assert run_steps(steps) == ["+a@11", "a@11>a@13"]

    @pytest.mark.parametrize("code", [0, 429])
    def test_a_watch_on_an_unavailable_server_is_retried_without_a_list(self, code: int) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            await asyncio.sleep(10)
            server.fail("watch", failure(code), times=3)
            server.end_watches()
            await asyncio.sleep(MINUTE / SECOND)
            assert server.verbs() == ["list"] + ["watch"] * 5
            server.put("a")
            await asyncio.sleep(1)
            assert heard == ["+a@11"]

        run_steps(steps)

    def test_a_connection_that_broke_after_it_worked_is_reopened_at_once(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            await asyncio.sleep(5)
            server.put("a")
            await asyncio.sleep(5)
            server.end_watches(failure(0, "connection reset by peer"))
            await asyncio.sleep(0.1)
            assert server.watched_from() == ["10", "11"]

        run_steps(steps)

    def test_other_failures_lead_to_a_new_list(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            await asyncio.sleep(5)
            server.end_watches(failure(500))
            await asyncio.sleep(2)
            assert server.verbs() == ["list", "watch", "list", "watch"]

        run_steps(steps)

    def test_an_error_event_counts_as_the_failure_it_names(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            await asyncio.sleep(5)
            status: object = Status(status="Failure", code=410, reason="Expired")
            server.say(WatchEvent("ERROR", status, "99"))  # type: ignore[arg-type]
            server.forget_history()
            await asyncio.sleep(2)
            assert server.verbs() == ["list", "watch", "list", "watch"]
            assert informer.resource_version == "10"

        run_steps(steps)


def test_failing_lists_are_repeated_at_growing_distances() -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        server.fail("list", failure(403, "pods is forbidden"), times=4)
        await informer.wait_for_sync()
        assert server.verbs().count("list") == 5
        pauses_s = await elapsed_s() - 5 * 0.01
        assert 0.8 + 1.6 + 3.2 + 6.4 <= pauses_s < 2 * (0.8 + 1.6 + 3.2 + 6.4)

    run_steps(steps)


@pytest.mark.parametrize("code", [0, 502, 503, 504])
def test_an_unavailable_server_is_retried_often_behind_any_proxy(code: int) -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        server.fail("list", failure(code), times=1_000)
        await asyncio.sleep(60)
        # 0.8, 1.6, then 3 s, each up to twice as long
        assert len(server.calls) >= 2 + (60 - 2 * (0.8 + 1.6)) // 6

    run_steps(steps)


def test_an_event_without_a_version_does_not_make_the_next_watch_begin_anywhere() -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        await informer.wait_for_sync()
        server.say(WatchEvent("BOOKMARK", None, ""))
        await asyncio.sleep(5)
        server.end_watches()
        await asyncio.sleep(1)
        assert server.watched_from() == ["10", "10"]

    run_steps(steps)


def test_a_kind_that_is_never_served_never_syncs() -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        server.fail("list", failure(404), times=10_000)
        await asyncio.sleep(3_600)
        assert not informer.has_synced
        # In each two minutes there are pauses of 0.8, 1.6, 3.2, 6.4, 12.8 s and more.
        assert 30 * 5 < len(server.calls) < 30 * 9

    run_steps(steps)


class TestHandlers:
    def test_the_copy_is_up_to_date_when_a_handler_runs(self) -> None:
        async def main() -> list[int]:
            server = FakeApiServer()
            informer = make_informer(server)
            sizes: list[int] = []
            informer.add_handler(lambda _: sizes.append(len(informer.store)))
            for name in "abc":
                server.put(name)
            async with running(informer):
                await informer.wait_for_sync()
                server.put("d")
                await asyncio.sleep(1)
            return sizes

        assert run(main) == [3, 3, 3, 4]

    def test_a_failing_handler_is_logged_and_stops_no_other(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        def explode(_: Pod) -> None:
            raise ValueError("boom")

        async def main() -> list[str]:
            server = FakeApiServer()
            informer = make_informer(server)
            informer.add_handler(explode)
            heard = listen(informer)
            async with running(informer):
                await informer.wait_for_sync()
                server.put("a")
                server.put("b")
                await asyncio.sleep(1)
            return heard

        with caplog.at_level(logging.ERROR):
            assert run(main) == ["+a@11", "+b@12"]
        messages = [record.getMessage() for record in caplog.records]
        assert messages == [
            "Event handler failed kind=Pod object=default/a err=boom",
            "Event handler failed kind=Pod object=default/b err=boom",
        ]

    def test_a_late_handler_gets_all_existing_objects_first(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            server.put("a")
            server.put("b")
            await asyncio.sleep(1)
            late = listen(informer)
            assert late == ["+a@11", "+b@12"]
            server.put("a")
            await asyncio.sleep(1)
            assert late == ["+a@11", "+b@12", "a@11>a@13"]

        run_steps(steps)

    def test_a_handler_that_is_added_during_a_list_gets_no_object_twice(self) -> None:
        async def main() -> None:
            server = FakeApiServer()
            for number in range(3_000):
                server.put(f"p{number}")
            informer = make_informer(server)
            late: list[list[str]] = []
            loop = asyncio.get_running_loop()

            def join(new: Pod) -> None:
                if new.metadata.name == "p0":
                    loop.call_soon(lambda: late.append(listen(informer)))

            first = listen(informer)
            informer.add_handler(join)
            async with running(informer):
                await informer.wait_for_sync()
            assert len(first) == 3_000
            assert late == [first]

        run(main)

    def test_handlers_may_ignore_what_they_do_not_need(self) -> None:
        async def steps(
            server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]
        ) -> None:
            informer.add_handler()
            await asyncio.sleep(1)
            server.put("a")
            server.put("a")
            server.remove("a")
            await asyncio.sleep(1)

        assert run_steps(steps) == ["+a@11", "a@11>a@12", "-a@13"]


class TestStopping:
    @pytest.mark.parametrize("after_s", [0.0, 0.005, 0.015, 5.0])
    def test_stop_ends_the_informer_immediately_in_every_state(self, after_s: float) -> None:
        async def main() -> float:
            server = FakeApiServer()
            server.fail("list", failure(500))
            informer = make_informer(server)
            async with running(informer):
                await asyncio.sleep(after_s)
            informer.stop()
            return await elapsed_s()

        assert run(main) == after_s

    def test_stop_before_run_prevents_all_requests(self) -> None:
        async def main() -> list[str]:
            server = FakeApiServer()
            informer = make_informer(server)
            informer.stop()
            await informer.run()
            return server.verbs()

        assert run(main) == []

    def test_errors_close_the_stream(self) -> None:
        class Server(FakeApiServer):
            closed = 0

            async def watch(self, kind, namespace, **options):  # type: ignore[no-untyped-def]
                try:
                    async for event in super().watch(kind, namespace, **options):
                        yield event
                finally:
                    self.closed += 1

        async def main() -> int:
            server = Server()
            informer = make_informer(server)
            async with running(informer):
                await asyncio.sleep(5)
                # An error event makes the informer turn away from a stream that is still open.
                server.say(WatchEvent("ERROR", None, "99"))
                await asyncio.sleep(0.1)
                assert server.closed == 1
                server.forget_history()
                await asyncio.sleep(5)
                assert server.verbs() == ["list", "watch", "list", "watch"]
            return server.closed

        assert run(main) == 2


def test_available_events_cost_no_turn_of_the_loop() -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        await asyncio.sleep(1)
        for number in range(500):
            server.put(f"p{number}")
        turns = 0
        while len(heard) < 500:
            turns += 1
            await asyncio.sleep(0)
        assert turns <= 3

    run_steps(steps)


def test_a_burst_of_events_yields_to_other_tasks() -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        await asyncio.sleep(1)
        for number in range(5_000):
            server.put(f"p{number}")
        seen = set()
        while len(heard) < 5_000:
            seen.add(len(heard))
            await asyncio.sleep(0)
        assert len(seen) >= 4

    run_steps(steps)


def test_handlers_that_take_long_let_others_run_in_between() -> None:
    """A few very large objects take as long as thousands of small ones."""

    async def main() -> set[int]:
        server, clock, handled = FakeApiServer(), ManualClock(), []
        informer = SharedInformer(server.access, Pod, clock, random.Random(1))

        def handle(new: Pod) -> None:
            clock.advance(15 * MILLISECOND)
            handled.append(new)

        informer.add_handler(handle)
        seen = set()
        async with running(informer):
            await asyncio.sleep(1)  # the watch is open
            for number in range(50):
                server.put(f"p{number}")
            while len(handled) < 50:
                seen.add(len(handled))
                await asyncio.sleep(0)
        return seen

    assert len(run(main)) >= 25


actions = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from("abcd")),
        st.tuples(
            st.sampled_from(["end", "break", "forget", "bookmark", "away", "busy", "fail"]),
            st.just(""),
        ),
        st.tuples(st.just("wait"), st.sampled_from(["0.005", "0.5", "3", "200"])),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(actions)
def test_copy_and_handlers_converge_after_random_faults(
    history: list[tuple[str, str]],
) -> None:
    async def main() -> None:
        server = FakeApiServer(page_size=2)
        informer = make_informer(server)
        replica: dict[str, Pod] = {}

        def add(new: Pod) -> None:
            assert new.metadata.name not in replica
            replica[new.metadata.name] = new

        def update(old: Pod, new: Pod) -> None:
            assert replica[old.metadata.name] == old
            assert int(new.metadata.resource_version) >= int(old.metadata.resource_version)
            replica[new.metadata.name] = new

        def delete(old: Pod, unknown: bool) -> None:
            last = replica.pop(old.metadata.name)
            assert not unknown or last == old

        informer.add_handler(add, update, delete)
        async with running(informer):
            for action, subject in history:
                await act(server, action, subject)
            await asyncio.sleep(300)
            stored = {kept.metadata.name: kept for kept in informer.store.list()}
            assert stored == replica
            assert stored == {name: kept for (_, name), kept in server.pods.items()}
            assert informer.has_synced

    async def act(server: FakeApiServer, action: str, subject: str) -> None:
        if action == "put":
            server.put(subject)
        elif action == "remove" and ("default", subject) in server.pods:
            server.remove(subject)
        elif action == "bookmark":
            server.bookmark()
        elif action == "end":
            server.end_watches()
        elif action == "break":
            server.end_watches(failure(500))
        elif action == "forget":
            server.forget_history()
        elif action == "away":
            server.fail("watch", failure(0))
            server.end_watches(failure(0))
        elif action == "busy":
            server.fail("watch", failure(429))
        elif action == "fail":
            server.fail("list", failure(500))
            server.fail("page", failure(410))
        elif action == "wait":
            await asyncio.sleep(float(subject))

    run(main)


def test_same_seed_same_requests() -> None:
    async def main() -> list[int]:
        server = FakeApiServer()
        server.fail("list", failure(500), times=6)
        clock, times = current_clock(), list[int]()
        server.calls = _Timed(times, clock.monotonic_ns)  # type: ignore[assignment]
        async with running(make_informer(server)):
            await asyncio.sleep(300)
        return times

    assert run(main) == run(main)


class _Timed(list[object]):
    def __init__(self, times: list[int], now: Callable[[], int]) -> None:
        super().__init__()
        self._times, self._now = times, now

    def append(self, _: object) -> None:
        self._times.append(self._now())


def test_an_api_error_is_the_only_failure_that_is_survived() -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        def bug() -> None:
            raise TypeError("a bug in the transport")

        server._failures["list"].append(bug)
        await asyncio.sleep(60)

    with pytest.raises(ExceptionGroup) as caught:
        run_steps(steps)
    assert isinstance(caught.value.exceptions[0], TypeError)
    assert not isinstance(caught.value.exceptions[0], ApiError)


def test_an_initial_list_without_progress_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Held:
        """Sends two objects 24 s apart, and the end of the list after another 24 s."""

        async def watch(self, *_: Any, **__: Any) -> AsyncIterator[WatchEvent[Pod]]:
            for name in ("a", "b"):
                yield WatchEvent("ADDED", pod(name), "5")
                await asyncio.sleep(24)
            yield WatchEvent("BOOKMARK", None, "6", is_initial_end=True)
            await asyncio.sleep(100)

    async def main() -> None:
        api: Any = Held()
        informer = SharedInformer(api, Pod, current_clock(), random.Random(1), stream_lists=True)
        async with running(informer):
            await informer.wait_for_sync()
            await asyncio.sleep(90)

    run(main)
    told = [line for line in caplog.messages if "The initial list does not go on" in line]
    # It looks every 10 s, and the second silence begins after 24 s.
    assert [line.rpartition("silence=")[2] for line in told] == ["10s", "20s", "16s"]


class EndlessPages(FakeApiServer):
    """Endless pages: always the same token, or always a new one, possibly with empty pages."""

    def __init__(self, form: str, *, is_stubborn: bool) -> None:
        super().__init__()
        self.put("a")
        self.put("b")
        self._form, self._is_stubborn = form, is_stubborn

    async def list(self, kind: type[Pod], namespace: str | None, **options: Any) -> ObjectList[Pod]:
        page = await super().list(kind, namespace, **{**options, "limit": 0, "continue_token": ""})
        if not options["limit"] and not self._is_stubborn:
            return page
        token = "again" if self._form == "same token" else str(len(self.calls))
        items = [] if self._form == "empty" else page.items
        return ObjectList(items, page.resource_version, token)


FORMS = ["same token", "new tokens", "empty"]


@pytest.mark.parametrize("form", FORMS)
def test_a_list_with_endless_pages_is_requested_in_one_piece(form: str) -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        async with asyncio.timeout(60):
            await informer.wait_for_sync()
        assert sorted(heard) == ["+a@11", "+b@12"]

    run_steps(steps, EndlessPages(form, is_stubborn=False))


@pytest.mark.parametrize("form", FORMS)
def test_endless_lists_fail_and_are_retried(form: str, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(server: FakeApiServer, informer: SharedInformer[Pod], heard: list[str]) -> None:
        await asyncio.sleep(120)
        assert not informer.has_synced
        assert list(informer.store.list()) == []
        assert "lead nowhere" in caplog.text

    run_steps(steps, EndlessPages(form, is_stubborn=True))
