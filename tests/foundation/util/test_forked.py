"""Work in a child process: its result, its errors, and the absence of leftovers."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from kubesched.errors import KubeschedError
from kubesched.foundation.util.forked import ChildError, in_child


def test_the_result_of_a_child_is_returned_completely() -> None:
    content = os.urandom(1 << 20)  # more than a pipe holds
    assert asyncio.run(in_child(lambda: content, 20)) == content


def test_a_child_reads_the_parents_state_and_cannot_change_it() -> None:
    seen = [b"before"]

    def work() -> bytes:
        seen.append(b"changed")
        return b",".join(seen)

    assert asyncio.run(in_child(work, 20)) == b"before,changed"
    assert seen == [b"before"]


def test_a_refusal_is_distinguished_from_a_failure() -> None:
    def refuse() -> bytes:
        raise KubeschedError("no such pod")

    def fail() -> bytes:
        raise ValueError("broken")

    with pytest.raises(ChildError, match="no such pod") as refused:
        asyncio.run(in_child(refuse, 20))
    assert refused.value.is_refusal
    with pytest.raises(ChildError, match="ValueError: broken") as failed:
        asyncio.run(in_child(fail, 20))
    assert not failed.value.is_refusal


def test_a_child_may_not_fill_the_memory() -> None:
    with pytest.raises(ChildError, match="needs more than 2048 MiB of memory") as refused:
        asyncio.run(in_child(lambda: bytes(3 << 30), 20))
    assert refused.value.is_refusal


def test_a_child_that_ends_without_a_result_is_an_error() -> None:
    with pytest.raises(ChildError, match="without an answer"):
        asyncio.run(in_child(lambda: os._exit(3), 20))


def test_a_child_is_killed_after_the_timeout() -> None:
    pids = []
    fork = os.fork

    def noted() -> int:
        pid = fork()
        if pid:
            pids.append(pid)
        return pid

    def work() -> bytes:
        time.sleep(60)
        return b""

    os.fork = noted
    try:
        with pytest.raises(ChildError, match="no answer"):
            asyncio.run(in_child(work, 0.05))
    finally:
        os.fork = fork
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_child_closes_the_connections_of_its_parent() -> None:
    reading, writing = os.pipe()

    def work() -> bytes:
        try:
            os.fstat(reading)
        except OSError:
            return b"closed"
        return b"open"

    try:
        assert asyncio.run(in_child(work, 20)) == b"closed"
    finally:
        os.close(reading)
        os.close(writing)


def test_without_memory_the_child_is_killed_first() -> None:
    score = Path("/proc/self/oom_score_adj")
    if not score.exists():
        pytest.skip("only Linux says who goes first")
    before = score.read_bytes()
    assert asyncio.run(in_child(score.read_bytes, 20)).strip() == b"1000"
    assert score.read_bytes() == before
