"""A scheduler over HTTP with a failing API server: no pod lost, none bound twice.

Everything runs on virtual time: the real client, informers and scheduler, and the embedded server
behind a network that injects the faults of the case. Pods arrive before, during and after the
faults.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.api.events import Event
from kubesched.cluster.apiserver import LocalApi
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse, TransportError
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from tests.foundation.client.wire_network import Network, Trouble

TROUBLE_S = 20
EACH = 8
INFORMERS = 20
RESET = TransportError("connection lost", "reset")


def status(code: int, reason: str, message: str = "", **more: Any) -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return json.dumps({**body, "code": code, "reason": reason, "message": message, **more}).encode()


def says(code: int, reason: str, message: str = "", *, retry_after: str = "") -> ServerResponse:
    headers = {"Retry-After": retry_after} if retry_after else {}
    return ServerResponse(code, status(code, reason, message), headers)


TOO_LARGE = ServerResponse(
    504,
    status(
        504,
        "Timeout",
        "Too large resource version: 99999, current: 100",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large"}],
            "retryAfterSeconds": 1,
        },
    ),
    {"Retry-After": "1"},
)


def is_watch(request: OutgoingRequest) -> bool:
    return "watch=true" in request.target


def is_streamed_list(request: OutgoingRequest) -> bool:
    return "sendInitialEvents" in request.target


def is_bind(request: OutgoingRequest) -> bool:
    return request.target.partition("?")[0].endswith("/binding")


Asked = Callable[[OutgoingRequest], bool]


def everything(_: OutgoingRequest) -> bool:
    return True


class SchedulerOutageHarness:
    """A cluster, its scheduler on the other side of a network, and what became of the pods."""

    def __init__(self) -> None:
        self.clock = current_clock()
        self.network = Network()
        self.calm = LocalApi(self.network.store, self.clock)
        self.scheduler = Scheduler(
            self.network.client("scheduler"), self.clock, seed=1, stream_lists=True
        )
        self.bound: Counter[str] = Counter()

    async def create(self, new: Node | Pod) -> None:
        metadata = replace(new.metadata, resource_version="", uid="")
        await self.calm.create(replace(new, metadata=metadata))

    async def create_pods(self, prefix: str) -> None:
        for number in range(EACH):
            pod = make_pod(f"{prefix}{number}", requests={"cpu": "10m"}, images=["i"])
            await self.create(pod)

    async def count_bindings(self) -> None:
        async for event in self.calm.watch(Pod, resource_version="0"):
            pod = event.object
            if pod is not None and event.type == "MODIFIED" and pod.spec.node_name:
                self.bound[f"{pod.metadata.uid} {pod.spec.node_name}"] += 1

    async def until_bound(self, count: int, within_s: float) -> None:
        for _ in range(int(within_s * 10)):
            if await self._bound() >= count:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{await self._bound()} of {count} pods are bound")

    async def _bound(self) -> int:
        return sum(bool(pod.spec.node_name) for pod in (await self.calm.list(Pod)).items)

    async def check(self, pods: int) -> None:
        listed = (await self.calm.list(Pod)).items
        assert len(listed) == pods
        assert [pod.metadata.name for pod in listed if not pod.spec.node_name] == []
        # A pod is never bound to a second node: there are as many pairs of uid and node as pods.
        assert len(self.bound) == pods
        cache, queue = self.scheduler.cache, self.scheduler.queue
        cache.check_invariants()
        queue.check_invariants()
        assert cache.assumed_count == 0
        assert cache.pod_count == pods
        assert queue.pending_pods()[0] == []


def run_steps(steps: Callable[[SchedulerOutageHarness], Awaitable[None]]) -> None:
    async def main() -> None:
        harness = SchedulerOutageHarness()
        for number in range(4):
            await harness.create(make_node(f"n{number}", cpu="8"))
        counting = asyncio.create_task(harness.count_bindings())
        async with running(harness.scheduler):
            await steps(harness)
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)

    virtual_loop.run(main, seed=1)


class Case(NamedTuple):
    """The faults, and the time after their end within which the cluster must be in order."""

    begin: Callable[[SchedulerOutageHarness], None]
    end: Callable[[SchedulerOutageHarness], None] = lambda harness: None
    well_within_s: float = 60
    during: Callable[[SchedulerOutageHarness], None] = lambda harness: None
    """Every second of the trouble."""


def answering(answer: ServerResponse, asked: Asked = everything) -> Case:
    """Respond in place of the server."""

    def begin(harness: SchedulerOutageHarness) -> None:
        harness.network.trouble = lambda request: Trouble(answer=answer) if asked(request) else None
        harness.network.break_streams()

    return Case(begin)


def befalling(trouble: Trouble, asked: Asked = everything) -> Case:
    def begin(harness: SchedulerOutageHarness) -> None:
        harness.network.trouble = lambda request: trouble if asked(request) else None

    return Case(begin)


def mangling(mangle: Callable[[bytes], bytes | TransportError]) -> Case:
    """What watches bring is spoilt."""

    def begin(harness: SchedulerOutageHarness) -> None:
        harness.network.mangle = lambda _, lines: mangle(lines)
        harness.network.break_streams()

    def end(harness: SchedulerOutageHarness) -> None:
        harness.network.mangle = lambda _, lines: lines

    return Case(begin, end)


def in_stream(code: int, reason: str) -> Case:
    event = b'{"type":"ERROR","object":%s}\n' % status(code, reason)
    return mangling(lambda _: event)


CASES = {
    "the server is away": Case(lambda w: w.network.go_down(), lambda w: w.network.come_up()),
    "the server is away and has forgotten all history": Case(
        lambda w: w.network.go_down(), lambda w: w.network.come_up(forgetful=True)
    ),
    "watches break again and again": Case(
        lambda w: None, during=lambda w: w.network.break_streams()
    ),
    "watches end again and again": Case(lambda w: None, during=lambda w: w.network.end_streams()),
    "history is compacted all the time, and watches break": Case(
        lambda w: None,
        during=lambda w: (w.network.compact(), w.network.break_streams()),  # type: ignore[func-returns-value]
    ),
    "watches stall": Case(lambda w: w.network.stall_streams(), well_within_s=700),
    "requests get no answer": befalling(Trouble(stalls=True), lambda r: not is_watch(r))._replace(
        well_within_s=120
    ),
    "every request fails": answering(says(500, "InternalError")),
    "the server is not ready": answering(says(503, "ServiceUnavailable", retry_after="1")),
    "the server has too much to do": answering(says(429, "TooManyRequests", retry_after="1")),
    "the server has too much to do and says no time": answering(says(429, "TooManyRequests")),
    "a proxy answers with a page": answering(ServerResponse(502, b"<html>bad gateway</html>")),
    "the credentials are refused": answering(says(401, "Unauthorized")),
    "nothing is allowed": answering(says(403, "Forbidden")),
    "watches cannot be opened": answering(says(500, "InternalError"), is_watch),
    "no version is known": answering(says(410, "Expired"), is_watch),
    "every version is still to come": answering(TOO_LARGE, is_watch),
    "initial lists are not streamed": answering(says(422, "Invalid"), is_streamed_list),
    "watches bring that the version has expired": in_stream(410, "Expired"),
    "watches bring internal errors": in_stream(500, "InternalError"),
    "watches bring that there is too much to do": in_stream(429, "TooManyRequests"),
    "watches break within a line": mangling(lambda lines: lines[:-5])._replace(
        during=lambda w: w.network.break_streams()
    ),
    "watches go on after a line without an end": mangling(lambda lines: lines[:-5]),
    "watches bring no JSON": mangling(lambda _: b"<html>\n"),
    "watches bring nothing before they break": mangling(lambda _: RESET),
    "requests are lost on the way": befalling(Trouble(lost=True)),
    "answers are lost on the way": befalling(Trouble(answer_lost=True)),
    "bindings are lost on the way": befalling(Trouble(lost=True), is_bind),
    "answers to bindings are lost": befalling(Trouble(answer_lost=True), is_bind),
    "answers to bindings are lost after long": befalling(
        Trouble(answer_lost=True, answer_ns=10 * SECOND), is_bind
    ),
    "bindings are in conflict": answering(says(409, "Conflict"), is_bind),
    "bindings find no pod": answering(says(404, "NotFound"), is_bind),
    "bindings are forbidden": answering(says(403, "Forbidden", "being terminated"), is_bind),
    "bindings time out": answering(says(504, "Timeout"), is_bind),
    "bindings fail": answering(says(500, "InternalError"), is_bind),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_process_recovers_soon_afterwards(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(harness: SchedulerOutageHarness) -> None:
        await harness.create_pods("before")
        await harness.until_bound(EACH, 10)
        await asyncio.sleep(1)
        case.begin(harness)
        asked = len(harness.network.requests)
        await harness.create_pods("during")
        for second in range(TROUBLE_S):
            await asyncio.sleep(1)
            case.during(harness)
            if second == TROUBLE_S // 2:
                await harness.create(make_node("late", cpu="8"))
        # Each informer, and each pod with its binding, condition and event, at growing distances.
        assert len(harness.network.requests) - asked < 12 * INFORMERS + 30 * EACH
        case.end(harness)
        harness.network.trouble = lambda _: None
        await harness.create_pods("after")
        await harness.until_bound(3 * EACH, case.well_within_s)
        await asyncio.sleep(60)
        await harness.check(3 * EACH)

    with caplog.at_level(logging.INFO):
        run_steps(steps)
    assert len(caplog.records) < 12 * INFORMERS + 20 * EACH


def test_frames_may_be_cut_anywhere() -> None:
    async def steps(harness: SchedulerOutageHarness) -> None:
        harness.network.chunk_size = 7
        await harness.create_pods("p")
        await harness.until_bound(EACH, 30)
        await asyncio.sleep(60)
        await harness.check(EACH)

    run_steps(steps)


PAGES = {
    "with a token to go on from another state": {"continue": "another"},
    "with nothing to go on from": {},
}


@pytest.mark.parametrize("metadata", PAGES.values(), ids=PAGES)
def test_a_list_whose_pages_expire_is_requested_in_one_piece(metadata: dict[str, str]) -> None:
    def trouble(request: OutgoingRequest) -> Trouble | None:
        if is_streamed_list(request):
            return Trouble(answer=says(422, "Invalid"))
        if "continue=" in request.target:
            message = "The provided continue parameter is too old"
            return Trouble(
                answer=ServerResponse(410, status(410, "Expired", message, metadata=metadata))
            )
        return None

    async def main() -> None:
        harness = SchedulerOutageHarness()
        harness.network.trouble = trouble
        for number in range(1_100):
            await harness.create(make_node(f"n{number}", cpu="8"))
        await harness.create_pods("p")
        counting = asyncio.create_task(harness.count_bindings())
        async with running(harness.scheduler):
            await harness.until_bound(EACH, 30)
            assert harness.network.count("GET", "/api/v1/nodes?limit=500") == 2
            assert len(harness.scheduler.informers.lister(Node).list()) == 1_100
        counting.cancel()

    virtual_loop.run(main, seed=1)


def test_an_expired_version_leads_to_a_new_list_at_once() -> None:
    async def steps(harness: SchedulerOutageHarness) -> None:
        await harness.create_pods("before")
        await harness.until_bound(EACH, 10)
        await harness.create_pods("more")
        await asyncio.sleep(5)
        harness.network.go_down()
        await asyncio.sleep(0.1)
        harness.network.come_up(forgetful=True)
        await harness.create(make_node("late", cpu="8"))
        harness.network.compact()
        harness.network.requests.clear()
        harness.network.trouble = lambda request: (
            Trouble(answer=says(410, "Expired"))
            if is_streamed_list(request) and "resourceVersion=" in request.target
            else None
        )
        # A watch is refused (410), the next attempt streams from the last version (410), then from
        # none.
        await asyncio.sleep(4)
        nodes = [r.target for _, r in harness.network.requests if "/nodes" in r.target]
        versions = ["resourceVersion=" in target for target in nodes]
        assert versions == [True, True, False], nodes
        assert "sendInitialEvents=true" in nodes[-1]
        assert harness.scheduler.informers.lister(Node).get("late") is not None

    run_steps(steps)


EVENTS = {
    "get no answer": Trouble(stalls=True),
    "take long": Trouble(server_ns=20 * SECOND),
    "are refused": Trouble(answer=says(429, "TooManyRequests", retry_after="5")),
    "are lost": Trouble(lost=True),
}


@pytest.mark.parametrize("trouble", EVENTS.values(), ids=EVENTS)
def test_events_that_cannot_be_sent_hold_up_no_binding(trouble: Trouble) -> None:
    async def steps(harness: SchedulerOutageHarness) -> None:
        harness.network.trouble = lambda request: trouble if "/events" in request.target else None
        began_ns = harness.clock.monotonic_ns()
        for batch in range(10):
            await harness.create_pods(f"p{batch}-")
        await harness.until_bound(10 * EACH, 5)
        assert harness.clock.monotonic_ns() - began_ns < 2 * SECOND
        await asyncio.sleep(5)
        await harness.check(10 * EACH)

    run_steps(steps)


def test_recorded_events_are_sent_before_the_scheduler_ends() -> None:
    seen: list[int] = []

    async def steps(harness: SchedulerOutageHarness) -> None:
        for batch in range(10):
            await harness.create_pods(f"p{batch}-")
        await harness.until_bound(10 * EACH, 5)
        seen.append(len((await harness.calm.list(Event)).items))
        harness.scheduler.stop()
        await asyncio.sleep(5)
        seen.append(len((await harness.calm.list(Event)).items))

    run_steps(steps)
    assert seen[-1] == 10 * EACH
