"""`/debug` (docs/reference/02 §6.5, case 45)."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kubesched.foundation.util.clock import ManualClock
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.server.serving.secure_server import build_routes
from tests.scheduler.server.serving_harness import ADMIN, ServingHarness, request


def test_verbosity_is_set_by_put_alone() -> None:
    harness = ServingHarness(ManualClock())
    answer = asyncio.run(harness.ask("/debug/flags/v", token=ADMIN))
    assert (answer.status, answer.body) == (406, b"unsupported http method\n")
    answer = asyncio.run(harness.ask("/debug/flags/v", token=ADMIN, method="PUT", body=b"4"))
    assert (answer.status, answer.body) == (200, b"successfully set klog.logging.verbosity to 4\n")
    assert harness.verbosity == [4]


@pytest.mark.parametrize("body", [b"x", b"", b" 4", b"4_0", b"99999999999", b"4.0", b"\xff"])
def test_a_verbosity_that_is_no_number_is_refused(body: bytes) -> None:
    harness = ServingHarness(ManualClock())
    answer = asyncio.run(harness.ask("/debug/flags/v", token=ADMIN, method="PUT", body=body))
    assert answer.status == 400
    assert harness.verbosity == []


def test_stacks_contain_the_names_of_tasks() -> None:
    async def main() -> bytes:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("a-task-of-mine")
        return (await ServingHarness(ManualClock()).ask("/debug/pprof/goroutine", token=ADMIN)).body

    assert b"task a-task-of-mine:\n" in asyncio.run(main())


def test_the_index_and_profiles_that_do_not_exist() -> None:
    harness = ServingHarness(ManualClock())
    answer = asyncio.run(harness.ask("/debug/pprof", token=ADMIN))
    assert (answer.status, answer.headers["Location"]) == (302, "/debug/pprof/")
    assert asyncio.run(harness.ask("/debug/pprof/", token=ADMIN)).status == 200
    assert asyncio.run(harness.ask("/debug/pprof/heap", token=ADMIN)).status == 404


def test_without_profiling_there_is_nothing_to_debug() -> None:
    harness = ServingHarness(ManualClock())
    pages = replace(harness.pages, profiling=False)
    routes = build_routes(pages, harness.metrics, harness.clock, derive(1, "x"))
    for path in ("/debug/pprof/", "/debug/flags/v"):
        assert asyncio.run(routes.find(path)(request(path))).status == 404
