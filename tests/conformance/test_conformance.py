"""What must match the reference, family by family. A row here never gets weaker."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.conformance.comparison import Step
from tests.conformance.families import FAMILY_NAMES, run_families
from tests.conformance.requirements import Requirement

EVERY_STEP = {"quantities": 820, "pod_requests": 600, "config": 87}

# None of these fields may differ, on as many steps as were recorded.
VERDICTS = "gated,error,preFilterMessage,rejected,absentNodes,unschedulablePlugins,feasible,message"
CHOICE = "scores,total,best,chosen"
PLACING = "reserve,preBind"
FIELDS = {
    "resources": (319, f"{VERDICTS},{CHOICE},{PLACING}"),
    "taints": (299, f"{VERDICTS},{CHOICE},{PLACING}"),
    "ports": (305, f"{VERDICTS},{CHOICE},{PLACING}"),
    "nodeaffinity": (323, f"{VERDICTS},{CHOICE},{PLACING}"),
    "images": (307, f"{VERDICTS},{CHOICE},{PLACING}"),
    "topology": (336, f"{VERDICTS},{CHOICE},{PLACING}"),
    "defaultspread": (300, f"{VERDICTS},{CHOICE},{PLACING}"),
    "podaffinity": (297, f"{VERDICTS},{CHOICE},{PLACING}"),
    "preemption": (324, f"{VERDICTS},{CHOICE},{PLACING}"),
    "gates": (180, f"{VERDICTS},{CHOICE},{PLACING}"),
    "strategies": (276, f"{VERDICTS},{CHOICE},{PLACING}"),
    "mixed": (397, f"{VERDICTS},{CHOICE},{PLACING}"),
}


@cache
def steps_of(directory: Path, family: str) -> list[Step]:
    return list(run_families(directory, [family]))


@pytest.mark.parametrize("family", EVERY_STEP)
def test_every_step_is_identical(shared: Path, family: str) -> None:
    steps = steps_of(shared / "goldens", family)
    assert len(steps) == EVERY_STEP[family]
    assert list(Requirement(family).failures(steps)) == []


@pytest.mark.parametrize("family", FIELDS)
def test_fields_that_are_built_are_identical(shared: Path, family: str) -> None:
    number, fields = FIELDS[family]
    steps = steps_of(shared / "goldens", family)
    assert len(steps) == number
    assert list(Requirement.parse(f"{family}:{fields}").failures(steps)) == []


@pytest.mark.parametrize("family", ["hints"])
def test_nothing_differs_that_is_built(shared: Path, family: str) -> None:
    steps = steps_of(shared / "goldens", family)
    assert steps
    assert [step for step in steps if step.differences] == []


def test_every_recorded_family_is_known(shared: Path) -> None:
    recorded = {
        path.name.removesuffix(".jsonl.gz")
        for path in (shared / "goldens" / "decisions").glob("*.jsonl.gz")
    }
    assert recorded <= set(FAMILY_NAMES)
