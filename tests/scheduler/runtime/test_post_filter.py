"""PostFilter with several plugins: the last call, the message, and the nomination."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kubesched.framework import (
    SUCCESS,
    CycleState,
    Diagnosis,
    Nominating,
    NominatingMode,
    Plugin,
    PodInfo,
    PostFilterResult,
    Status,
)
from kubesched.testing import make_pod
from tests.support import PluginHarness, plugin_class

CLEAR = Nominating(NominatingMode.OVERRIDE, "")
TO_X = Nominating(NominatingMode.OVERRIDE, "x")
NOOP = Nominating(NominatingMode.NOOP)


def says(name: str, status: Status, nominating: Nominating | None = None) -> type[Plugin]:
    return plugin_class(name, post_filter=lambda *_: PostFilterResult(status, nominating))


def breaks(*_: object) -> PostFilterResult:
    raise ValueError("no idea")


class Case(NamedTuple):
    plugins: list[type[Plugin]]
    code: str
    message: str
    plugin: str
    nominating: Nominating | None = None


CASES = {
    "the first that succeeds ends it, and what was said before is forgotten": Case(
        [
            says("A", Status.unschedulable("a")),
            says("B", SUCCESS, TO_X),
            says("C", Status.failure("c")),
        ],
        "Success",
        "",
        "",
        TO_X,
    ),
    "reasons add up, the first to reject is named, the last nomination counts": Case(
        [
            says("A", Status.unschedulable("a1", "a2"), TO_X),
            says("B", Status.unschedulable("b"), CLEAR),
            says("C", Status.pending("c"), NOOP),
        ],
        "Unschedulable",
        "a1, a2, b, c",
        "A",
        CLEAR,
    ),
    "unresolvable ends it": Case(
        [says("A", Status.unresolvable("a"), CLEAR), says("B", SUCCESS, TO_X)],
        "UnschedulableAndUnresolvable",
        "a",
        "A",
        CLEAR,
    ),
    "an error ends it without a nomination": Case(
        [says("A", Status.failure("not found"), TO_X), says("B", SUCCESS, TO_X)],
        "Error",
        "not found",
        "A",
    ),
    "an exception is an error": Case(
        [plugin_class("A", post_filter=breaks)], "Error", "no idea", "A"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_run_post_filter(case: Case) -> None:
    framework = PluginHarness(*case.plugins).framework
    result = framework.run_post_filter(CycleState(), PodInfo(make_pod("p")), Diagnosis())
    status = result.status
    assert (status.code.label, status.message, status.plugin) == (
        case.code,
        case.message,
        case.plugin,
    )
    assert result.nominating == case.nominating
