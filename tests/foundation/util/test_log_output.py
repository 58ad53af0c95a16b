from __future__ import annotations

import io
import json
import logging
import re
from types import SimpleNamespace

import pytest

from kubesched.foundation.util.clock import SECOND, VirtualClock
from kubesched.foundation.util.log_output import LogFlusher, LogSettings, SplitHandler, log_to
from kubesched.foundation.util.logging import get_logger, set_verbosity
from kubesched.foundation.util.virtual_loop import VirtualLoop

log = get_logger("kubesched.tests.output")
POD = SimpleNamespace(metadata=SimpleNamespace(name="web-1", namespace="default"))
NODE = SimpleNamespace(metadata=SimpleNamespace(name="node-3", namespace=""))


class Streams:
    def __init__(self, **settings: object) -> None:
        self.errors, self.infos = io.StringIO(), io.StringIO()
        self.handler = log_to(
            LogSettings(**settings),  # type: ignore[arg-type]
            self.errors,
            self.infos,
            process_id=4242,
        )


def test_a_text_line_has_a_head_a_message_and_fields() -> None:
    streams = Streams()
    log.info("Bound pod", pod=POD, node=NODE, nodes=3, fits=True, reasons=["a", "b"], none=None)
    assert re.fullmatch(
        r"I\d{4} \d\d:\d\d:\d\d\.\d{6}    4242 test_log_output\.py:\d+\] "
        r'"Bound pod" pod="default/web-1" node="node-3" nodes=3 fits=true '
        r'reasons=\["a","b"\] none=null\n',
        streams.errors.getvalue(),
    )
    assert streams.infos.getvalue() == ""


def test_log_severities_have_letters() -> None:
    streams = Streams(verbosity=4)
    log.detail(4, "d")
    log.warning("w")
    log.error("e", exc=OSError("gone"))
    heads = [line[0] for line in streams.errors.getvalue().splitlines()]
    assert heads[:3] == ["I", "W", "E"]
    assert '"e" err="gone"' in streams.errors.getvalue()


def test_text_of_several_lines_is_set_apart() -> None:
    streams = Streams()
    log.info("Using config", config="a: 1\nb: 2\n")
    assert streams.errors.getvalue().endswith('"Using config" config=<\n\ta: 1\n\tb: 2\n >\n')


def test_a_plain_line_is_not_quoted() -> None:
    streams = Streams(verbosity=1)
    log.plain(1, 'FLAG: --v="1"')
    log.plain(2, "hidden")
    [line] = streams.errors.getvalue().splitlines()
    assert line.endswith('] FLAG: --v="1"')


def test_a_json_line() -> None:
    streams = Streams(is_json=True, verbosity=3)
    log.detail(3, "Bound pod", pod=POD, node=NODE, nodes=3)
    log.error("Failed", exc=OSError("gone"))
    info, error = map(json.loads, streams.errors.getvalue().splitlines())
    assert re.fullmatch(r"util/test_log_output\.py:\d+", info.pop("caller"))
    assert info.pop("ts") > 1e12  # milliseconds
    assert info == {
        "msg": "Bound pod",
        "v": 3,
        "pod": {"name": "web-1", "namespace": "default"},
        "node": {"name": "node-3"},
        "nodes": 3,
    }
    assert (error["msg"], error["err"]) == ("Failed", "gone")
    assert "v" not in error


def test_a_traceback_follows_its_line() -> None:
    streams = Streams(is_json=True)
    log.exception("A bug", ValueError("bad"))
    assert "ValueError: bad" in json.loads(streams.errors.getvalue())["stacktrace"]


def test_split_streams_hold_infos_back_until_the_buffer_is_full() -> None:
    streams = Streams(split_streams=True, info_buffer_bytes=100)
    log.info("one")
    assert streams.infos.getvalue() == ""
    log.error("two")
    assert streams.errors.getvalue().endswith('"two"\n')
    log.info("three")
    assert [line[-6:].strip() for line in streams.infos.getvalue().splitlines()] == [
        '"one"',
        'three"',
    ]


def test_a_flusher_writes_what_is_held_back() -> None:
    errors, infos = io.StringIO(), io.StringIO()
    handler = SplitHandler(errors, infos, 1_000_000)
    handler.setFormatter(logging.Formatter("%(message)s"))
    loop = VirtualLoop()
    clock = VirtualClock(loop)
    flusher = LogFlusher(handler, clock, 5 * SECOND)

    async def scenario() -> None:
        running = loop.create_task(flusher.run())
        handler.emit(logging.makeLogRecord({"msg": "one", "levelno": logging.INFO}))
        await clock.sleep(4 * SECOND)
        assert infos.getvalue() == ""
        await clock.sleep(2 * SECOND)
        assert infos.getvalue() == "one\n"
        handler.emit(logging.makeLogRecord({"msg": "two", "levelno": logging.INFO}))
        flusher.stop()
        await running
        assert infos.getvalue() == "one\ntwo\n"

    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()


def test_modules_can_have_a_level_of_their_own() -> None:
    queue = get_logger("kubesched.scheduler.backend.scheduling_queue")
    cache = get_logger("kubesched.scheduler.backend.cache")
    set_verbosity(2, [("sched*", 6), ("backend/*", 4)])
    assert queue.enabled(6)
    assert not queue.enabled(7)
    assert cache.enabled(4)
    assert not cache.enabled(5)
    assert not log.enabled(3)
    late = get_logger("kubesched.tests.scheduled_later")
    assert late.enabled(6)
    set_verbosity(3, [("cache", 1)])
    assert cache.enabled(3), "a module's level can only show more"
    assert not queue.enabled(4)


@pytest.mark.parametrize("is_json", [False, True])
def test_a_field_in_a_message_is_truncated(is_json: bool) -> None:
    streams = Streams(is_json=is_json)
    log.error("Refused", exc=RuntimeError("m" * 10**6), said="n" * 10**6, names=["o" * 10**6])
    line = streams.errors.getvalue()
    assert len(line) < 4 * 64 * 1024
    assert "mmm..." in line
    assert "nnn..." in line
