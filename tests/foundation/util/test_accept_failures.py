"""A server without free descriptors logs at a limited rate and hides no other error."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.accept_failures import AcceptFailures


def fail(times: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(times):
        # In asyncio's own words, which the code under test must recognise.
        loop.call_exception_handler(
            {
                "message": "socket.accept() out of system resource",
                "exception": OSError(errno.EMFILE, "Too many open files"),
            }
        )


def test_a_thousand_failures_are_a_line_every_ten_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        AcceptFailures.sum_up(asyncio.get_running_loop())
        AcceptFailures.sum_up(asyncio.get_running_loop())
        fail(500)
        await asyncio.sleep(5)
        fail(500)
        assert len(caplog.records) == 1
        await asyncio.sleep(6)
        fail(1)

    virtual_loop.run(main, seed=0)
    first, second = (each.getMessage() for each in caplog.records)
    assert "out of file descriptors" in first
    assert "Too many open files" in first
    assert "failures=1000" in second
    assert caplog.text.count("Traceback") == 0


def test_other_errors_reach_the_existing_exception_handler() -> None:
    heard: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context))
        AcceptFailures.sum_up(loop)
        loop.call_exception_handler({"message": "something else"})

    virtual_loop.run(main, seed=0)
    assert [each["message"] for each in heard] == ["something else"]


def test_other_failures_are_logged_if_no_caller_handles_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        AcceptFailures.sum_up(asyncio.get_running_loop())
        asyncio.get_running_loop().call_exception_handler({"message": "something else"})

    asyncio.run(main())
    assert "something else" in caplog.text
