"""The families that must be identical to the reference. A row here is never weakened."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.conformance.comparison import Step, count
from tests.conformance.document import PAGE, README_SUM, claimed
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
    "volumes": 271,
    "volumes-wide": 359,
    "hints": 2055,
    "hints-wide": 800,
    "podgroups": 38,
    "dra": 157,
    "dra-wide": 387,
    "wild": 812,
    "large": 404,
}


@cache
def steps_of(directory: Path, family: str) -> list[Step]:
    return list(run_families(directory, [family]))


@pytest.mark.parametrize("family", EVERY_STEP)
def test_every_step_is_identical(goldens: Path, family: str) -> None:
    steps = steps_of(goldens, family)
    assert len(steps) == EVERY_STEP[family]
    assert list(Requirement(family).failures(steps)) == []


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_page_does_not_claim_more_than_there_is(goldens: Path, family: str) -> None:
    steps, identical = claimed(PAGE.read_text())[family]
    (counted,) = count(steps_of(goldens, family))
    assert (steps, identical) <= (counted.steps, counted.identical)


def test_the_readme_shows_the_sum_of_the_page() -> None:
    page = PAGE.read_text()
    families = claimed(page)
    steps, identical = (sum(numbers) for numbers in zip(*families.values(), strict=True))
    total = f"**{identical} of {steps} identical**"
    assert page.endswith(f"\n{total}\n")
    assert README_SUM.findall((PAGE.parents[1] / "README.md").read_text()) == [total]


def test_every_recorded_family_is_tested(goldens: Path) -> None:
    recorded = {
        path.name.removesuffix(".jsonl.gz") for path in (goldens / "decisions").glob("*.jsonl.gz")
    }
    assert recorded <= set(FAMILY_NAMES)
