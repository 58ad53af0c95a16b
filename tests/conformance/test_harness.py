"""Tests of the conformance harness: it finds differences, and counts missing features."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.conformance.__main__ import main
from tests.conformance.comparison import ABSENT, Difference, Step, compare, count
from tests.conformance.expectations import expectation
from tests.conformance.report import render_steps, render_table, summary
from tests.conformance.requirements import Requirement

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-00", "uid": "uid-1"},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
}


def pending(name: str, cpu: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        },
    }


FITS = {
    "pod": "default/fits",
    "feasible": ["node-00"],
    "best": ["node-00"],
    "chosen": "node-00",
}


def write_goldens(
    directory: Path,
    expected: list[dict[str, Any]],
    family: str = "small",
    others: tuple[dict[str, Any], ...] = (),
) -> None:
    """Write a scenario of two pods: one fits the node, the other does not."""
    (directory / "decisions").mkdir()
    golden = {
        "name": f"{family}-00000",
        "objects": [NODE, *others],
        "pending": [pending("fits", "500m"), pending("huge", "600m")],
        "expected": expected,
    }
    path = directory / "decisions" / f"{family}.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(golden).encode()))


def rejection(reason: str) -> dict[str, Any]:
    return {
        "pod": "default/huge",
        "rejected": {
            "node-00": {"code": "Unschedulable", "plugin": "NodeResourcesFit", "reasons": [reason]}
        },
        "unschedulablePlugins": ["NodeResourcesFit"],
        "message": f"0/1 nodes are available: 1 {reason}. a, b",
        "postFilter": {
            "code": "Unschedulable",
            "plugin": "DynamicResources",
            "reasons": ["a", "b"],
        },
    }


def run(directory: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["--goldens", str(directory), *arguments])
    return result.exit_code, result.output


def test_an_answer_equal_to_the_recording_is_counted(tmp_path: Path) -> None:
    write_goldens(tmp_path, [FITS, rejection("Insufficient cpu")])
    exit_code, output = run(tmp_path, "--require", "small:rejected,feasible,best,chosen")
    assert exit_code == 0, output
    assert output.splitlines()[-1].endswith(" of 2 identical")


def test_an_answer_that_differs_is_shown_side_by_side(tmp_path: Path) -> None:
    write_goldens(tmp_path, [FITS, rejection("Too many cooks")])
    exit_code, output = run(tmp_path, "--show", "small-00000")
    assert exit_code == 0
    (line,) = [line for line in output.splitlines() if "Too many cooks" in line and "|" in line][:1]
    expected, _, got = line.partition("|")
    assert expected.strip() == 'node-00: reasons: ["Too many cooks"]'
    assert got.strip() == 'node-00: reasons: ["Insufficient cpu"]'


def test_steps_after_a_difference_continue_from_the_recorded_state(tmp_path: Path) -> None:
    # In this recording the first pod was not placed, so the second one fits.
    nowhere = rejection("Insufficient cpu") | {"pod": "default/fits"}
    write_goldens(tmp_path, [nowhere, FITS | {"pod": "default/huge"}])
    steps = json.loads(run(tmp_path, "-o", "json")[1])
    (family,) = steps["families"]
    assert family["differing"] == 1
    assert family["identical"] == 1


def test_a_pod_that_waits_with_a_nomination_takes_room_and_is_never_tried(tmp_path: Path) -> None:
    waiting = pending("waiting", "600m") | {"status": {"nominatedNodeName": "node-00"}}
    nominated = {"default/waiting": "node-00"}
    expected = [
        rejection("Insufficient cpu") | {"pod": "default/fits", "stillNominated": nominated},
        rejection("Insufficient cpu") | {"stillNominated": nominated},
    ]
    write_goldens(tmp_path, expected, "some-wide", (waiting,))
    require = "some-wide:rejected,stillNominated"
    assert run(tmp_path, "--require", require)[0] == 0
    # The harness must detect the missing nomination.
    without = [{key: step[key] for key in step if key != "stillNominated"} for step in expected]
    other = tmp_path / "other"
    other.mkdir()
    write_goldens(other, without, "some-wide", (waiting,))
    assert run(other, "--require", require)[0] == 1


def test_a_pod_that_was_unreserved_does_not_run(tmp_path: Path) -> None:
    # In the recording the first pod was rejected after it was placed, so its room is free.
    refused = FITS | {"preBind": {"code": "Error", "plugin": "", "reasons": ["too late"]}}
    write_goldens(tmp_path, [refused, FITS | {"pod": "default/huge"}])
    (family,) = json.loads(run(tmp_path, "-o", "json")[1])["families"]
    assert family["fields"] == {"preBind": 1}
    assert family["identical"] == 1


def test_a_requirement_that_is_not_met_fails_the_run(tmp_path: Path) -> None:
    write_goldens(tmp_path, [FITS, rejection("Too many cooks")])
    exit_code, output = run(tmp_path, "--require", "small:rejected")
    assert exit_code == 1
    assert "required and not met: small-00000 default/huge: differs in rejected" in output
    assert run(tmp_path, "--require", "small:feasible")[0] == 0
    assert run(tmp_path, "--require", "nobody")[0] == 1


def test_an_unknown_scenario_or_directory_is_reported(tmp_path: Path) -> None:
    write_goldens(tmp_path, [FITS, FITS])
    assert "no scenario named" in run(tmp_path, "--show", "small-99999")[1]
    assert "no recordings at" in run(tmp_path / "nowhere")[1]


def test_fields_are_compared_whether_missing_or_unexpected() -> None:
    assert compare({"a": 1, "b": 2}, {"b": 3, "c": 4}) == (
        Difference("a", 1, ABSENT),
        Difference("b", 2, 3),
        Difference("c", ABSENT, 4),
    )


SCORED = {
    "pod": "default/p",
    "feasible": ["a", "b"],
    "scores": {"Built": {"a": 1, "b": 2}, "Missing": {"a": 5, "b": 5}},
    "total": {"a": 6, "b": 7},
    "best": ["b"],
    "chosen": "b",
}


def test_scores_of_missing_plugins_leave_the_total() -> None:
    fields, needs = expectation(SCORED, frozenset({"Missing"}))
    assert needs == ("Missing",)
    assert fields["scores"] == {"Built": {"a": 1, "b": 2}}
    assert fields["total"] == {"a": 1, "b": 2}
    assert fields["chosen"] == "b"


def test_a_missing_plugin_that_may_have_decided_leaves_the_choice_open() -> None:
    scores = {"Built": {"a": 1, "b": 2}, "Missing": {"a": 9, "b": 0}}
    fields, _ = expectation(SCORED | {"scores": scores}, frozenset({"Missing"}))
    assert "best" not in fields
    assert "chosen" not in fields


@pytest.mark.parametrize(
    "recorded",
    [
        {"rejected": {"a": {"code": "Unschedulable", "plugin": "Missing", "reasons": []}}},
        {"unschedulablePlugins": ["Missing"]},
        {"gated": {"code": "UnschedulableAndUnresolvable", "plugin": "Missing", "reasons": []}},
        {"absentNodes": {"code": "Unschedulable", "plugin": "Missing", "reasons": []}},
    ],
)
def test_a_verdict_of_a_missing_plugin_leaves_nothing_to_compare(recorded: dict[str, Any]) -> None:
    fields, needs = expectation({"pod": "p", "feasible": ["b"], **recorded}, frozenset({"Missing"}))
    assert (fields, needs) == ({}, ("Missing",))


def test_the_part_of_missing_post_filters_leaves_the_message() -> None:
    missing = frozenset({"DynamicResources", "DefaultPreemption"})
    fields, needs = expectation(rejection("Insufficient cpu"), missing)
    assert fields["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert "postFilter" not in fields
    assert needs == ("DefaultPreemption", "DynamicResources")


def test_preemption_is_compared_without_dynamic_resources() -> None:
    said = ["no new claims to deallocate", "preemption: no"]
    recorded = rejection("Insufficient cpu") | {
        "message": "0/1 nodes are available: 1 Insufficient cpu. " + ", ".join(said),
        "postFilter": {"code": "Unschedulable", "plugin": "DynamicResources", "reasons": said},
    }
    fields, needs = expectation(recorded, frozenset({"DynamicResources"}))
    assert fields["message"].endswith("1 Insufficient cpu. preemption: no")
    assert fields["postFilter"]["plugin"] == "DefaultPreemption"
    assert fields["postFilter"]["reasons"] == ["preemption: no"]
    assert needs == ("DynamicResources",)


STEPS = [
    Step("one", "one-0", "x"),
    Step("one", "one-0", "y", (Difference("f", 1, 2),), ("Later",)),
    Step("one", "one-1", "z", (), ("Later",)),
    Step("two", "two-0", "x"),
]


def test_steps_are_counted_per_family() -> None:
    one, two = count(STEPS)
    assert (one.steps, one.identical, one.differing, one.waiting) == (3, 1, 1, 1)
    assert (one.fields, one.needs) == ({"f": 1}, {"Later": 2})
    assert two.identical == two.steps == 1
    assert summary([one, two]) == "2 of 4 identical"
    assert "differ: f 1; needs: Later 2" in render_table([one, two])


def test_a_requirement_covers_all_fields_by_default() -> None:
    assert list(Requirement.parse("one").failures(STEPS)) == [
        "one-0 y: differs in f",
        "one-1 z: needs Later",
    ]
    assert list(Requirement.parse("one:g").failures(STEPS)) == []
    assert list(Requirement.parse("two").failures(STEPS)) == []


def test_a_displayed_step_has_its_description() -> None:
    assert render_steps(STEPS[:1]) == "one-0 x: identical"
    assert "one-0 y: needs Later" in render_steps(STEPS)
