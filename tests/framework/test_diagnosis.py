"""Lookup of statuses: of one node, and of all nodes with a code."""

from __future__ import annotations

import numpy as np
import pytest

from kubesched.framework import Code, Diagnosis, Rejections, Status

NO = Status.unschedulable("no")
NEVER = Status.unresolvable("never")
LATER = Status.pending("later")
NAMES = ["a", "b", "c", "d", "e"]
ROW_OF = {name: row for row, name in enumerate(NAMES)}
ALL = np.arange(5)


def diagnosis() -> Diagnosis:
    """Return a diagnosis: a: no, b: never, c: later, d: recorded one by one, e: not recorded."""
    made = Diagnosis(NAMES)
    made.add_rejections("A", np.array([0, 1]), Rejections(np.array([1, 2]), (NO, NEVER)))
    made.add_rejections("B", np.array([2]), Rejections(np.array([1]), (LATER,)))
    made.add_node_status("d", NO.blame("C"))
    return made


@pytest.mark.parametrize(
    ("name", "row", "want"),
    [
        ("a", 0, NO.blame("A")),
        ("b", 1, NEVER.blame("A")),
        ("c", 2, LATER.blame("B")),
        ("d", 3, NO.blame("C")),
        ("e", 4, Status.unresolvable()),
        ("gone", None, Status.unresolvable()),
    ],
)
def test_the_status_of_a_node(name: str, row: int | None, want: Status) -> None:
    assert diagnosis().status_of(name, row) == want


def with_code(made: Diagnosis, code: Code) -> list[str]:
    found = made.has_code(code, ALL, ROW_OF, capacity=8)
    return [name for name, has in zip(NAMES, found.tolist(), strict=True) if has]


def test_nodes_with_exactly_a_code() -> None:
    made = diagnosis()
    assert with_code(made, Code.UNSCHEDULABLE) == ["a", "d"]
    assert with_code(made, Code.UNSCHEDULABLE_AND_UNRESOLVABLE) == ["b", "e"]
    assert with_code(made, Code.PENDING) == ["c"]
    made.absent_nodes_status = NO
    assert with_code(made, Code.UNSCHEDULABLE) == ["a", "d", "e"]


def test_the_later_of_two_verdicts_on_a_node_counts() -> None:
    made = diagnosis()
    made.add_node_status("a", NEVER)
    assert made.status_of("a", 0) == NEVER
    assert with_code(made, Code.UNSCHEDULABLE) == ["d"]
