"""What must match the reference, family by family. A row here never gets weaker."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.conformance.comparison import Step
from tests.conformance.families import FAMILY_NAMES, run_families
from tests.conformance.requirements import Requirement

# Families of which every step is identical, and how many steps there are.
EVERY_STEP = {
    "quantities": 820,
    "pod_requests": 600,
    "config": 87,
    "resources": 319,
    "taints": 299,
    "ports": 305,
    "nodeaffinity": 323,
    "images": 307,
    "topology": 336,
    "defaultspread": 300,
    "podaffinity": 297,
    "preemption": 324,
    "gates": 180,
    "strategies": 276,
    "mixed": 397,
}


@cache
def steps_of(directory: Path, family: str) -> list[Step]:
    return list(run_families(directory, [family]))


@pytest.mark.parametrize("family", EVERY_STEP)
def test_every_step_is_identical(shared: Path, family: str) -> None:
    steps = steps_of(shared / "goldens", family)
    assert len(steps) == EVERY_STEP[family]
    assert list(Requirement(family).failures(steps)) == []


@pytest.mark.parametrize("family", ["hints", "hints-wide", "volumes", "dra"])
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
