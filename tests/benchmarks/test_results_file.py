"""Tables are generated from the output of benchmarks, and name the command that measured them."""

from __future__ import annotations

import importlib.util
import json
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import click
import pytest

from benchmarks.goals import GOALS, Goal
from benchmarks.performance_page import history_chart, performance_page
from benchmarks.record import recorded
from benchmarks.results_file import ResultFile

MACHINE = {"system": "Linux x86_64", "cores": 2, "memory_gib": 23, "python": "3.11.7"}


def result(lines: Sequence[Mapping[str, Any]], **fields: Any) -> ResultFile:
    return ResultFile(
        **{
            "question": "How fast?",
            "command": "python -m benchmarks.engine",
            "commit": "0123abcd",
            "measured": "2026-01-02",
            "load": "quiet",
            "machine": MACHINE,
            "columns": {"kind": "pods", "rate": "pods/s"},
            "lines": lines,
            **fields,
        }
    )


RUNS = [
    {"kind": "basic", "rate": 12345.6, "nodes": 1000},
    {"kind": "spread", "rate": 987.4, "nodes": 1000},
    {"kind": "basic", "rate": 15004.9, "nodes": 5000},
]


def test_runs_of_one_measurement_are_a_range() -> None:
    assert result(RUNS, by=["kind"]).table() == [
        ["pods", "pods/s"],
        ["basic", "12,350\N{EN DASH}15,000"],
        ["spread", "987"],
    ]


def test_without_a_group_each_line_is_a_row_and_a_missing_value_a_dash() -> None:
    lines = [{"kind": "basic", "rate": 1.2345}, {"kind": "basic", "rate": None}]
    assert result(lines).table()[1:] == [["basic", "1.23"], ["basic", "\N{EN DASH}"]]


def test_the_values_of_a_field_become_columns() -> None:
    assert result(RUNS, pivot="nodes").table() == [
        ["pods", "1,000 nodes", "5,000 nodes"],
        ["basic", "12,350", "15,000"],
        ["spread", "987", "\N{EN DASH}"],
    ]


def test_a_field_may_be_in_a_part_of_the_line() -> None:
    lines = [{"kind": "basic", "ms": {"p50": 2}}]
    table = result(lines, columns={"kind": "pods", "ms.p50": "p50"}).table()
    assert table[1:] == [["basic", "2"]]


def test_a_section_names_command_day_commit_load_and_machine() -> None:
    page = performance_page({"10-engine": result(RUNS, notes=["All nodes."], chart="a.svg")})
    *_, section = page.rpartition("## ")
    assert section == (
        "How fast?\n\n![How fast?](performance/a.svg)\n\n"
        "| pods | pods/s |\n| --- | --- |\n| basic | 12,350 |\n| spread | 987 |\n"
        "| basic | 15,000 |\n\n"
        "`python -m benchmarks.engine`: 2026-01-02, commit 0123abcd, quiet; Linux x86_64, 2 cores, "
        "23 GiB, Python 3.11.7.\n\nAll nodes.\n"
    )


def test_the_history_is_drawn_for_the_kinds_that_a_commit_can_run() -> None:
    lines = [
        {"number": 10, "engine-basic": 300.0},
        {"number": 20, "engine-basic": 200.0, "loop-basic": 900.0},
    ]
    chart = history_chart(result(lines))
    assert chart.count("<circle") == 3


def test_recording_replaces_the_output_and_retains_the_command() -> None:
    before = {"question": "How fast?", "commit": "old", "command": "old", "lines": [{"a": 1}]}
    output = "progress\n" + json.dumps({"a": 2}) + "\n"
    after = recorded(before, output, "python -m b", "0123abcd", append=False)
    assert (after["question"], after["lines"]) == ("How fast?", [{"a": 2}])
    assert (after["command"], after["commit"]) == ("python -m b", "0123abcd")
    more = recorded(after, output, "python -m b", "0123abcd", append=True)
    assert more["lines"] == [{"a": 2}, {"a": 2}]
    with pytest.raises(click.ClickException):
        recorded(after, output, "python -m b", "fedcba98", append=True)


def test_a_goal_is_compared_with_each_run_of_its_lines() -> None:
    rate = Goal("engine", "pods/s", operator.ge, 10_000, "c", "f", "rate", {"kind": "basic"})
    cost = rate._replace(is_reached=operator.le)
    results = {"f": result(RUNS)}
    assert rate.row(results) == [
        "engine",
        "\N{GREATER-THAN OR EQUAL TO} 10,000 pods/s",
        "12,350\N{EN DASH}15,000",
        "yes",
        "quiet",
        "`c`",
    ]
    assert rate._replace(value=13_000).row(results)[3] == "in 1 of 2 runs"
    assert rate._replace(value=20_000).row(results)[3] == "no"
    assert cost.row(results)[3] == "no"
    assert cost._replace(value=20_000).row(results)[3] == "yes"


def test_a_goal_without_a_measurement_says_so() -> None:
    goal = Goal("engine", "pods/s", operator.ge, 1, "c", "f", "rate", {"kind": "mixed"})
    assert goal.row({})[2:4] == ["\N{EN DASH}", "not measured"]
    assert goal.row({"f": result(RUNS)})[2:4] == ["\N{EN DASH}", "not measured"]


def test_every_goal_names_a_benchmark_that_exists() -> None:
    for goal in GOALS:
        _, _, module, *_ = goal.command.split()
        assert importlib.util.find_spec(module) is not None, goal.command
