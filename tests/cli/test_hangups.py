"""SIGHUP with and without a terminal."""

from __future__ import annotations

import pytest

from kubesched.cli.hangups import hangup_handler


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(True, False, "stop", id="the terminal was closed"),
        pytest.param(True, True, "reload", id="a signal to a process with a terminal"),
        pytest.param(False, False, "reload", id="a signal to a process without a terminal"),
    ],
)
def test_a_hangup_stops_only_a_process_that_lost_its_terminal(
    before: bool, after: bool, want: str
) -> None:
    done: list[str] = []
    answers = [before, after]
    handler = hangup_handler(
        lambda: done.append("reload"), lambda: done.append("stop"), lambda: answers.pop(0)
    )
    assert done == []
    handler()
    assert done == [want]
