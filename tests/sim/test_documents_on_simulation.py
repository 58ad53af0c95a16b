"""The commands and files in the documents about simulation work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kubesched.sim.checks import load_checks
from kubesched.sim.scenario_file import parse_scenario
from kubesched.sim.tuning import load_tuning

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```yaml[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(name: str, holding: str) -> list[str]:
    text = (ROOT / "docs" / name).read_text()
    return [block for block in BLOCK.findall(text) if holding in block]


def test_the_placement_test_holds(tmp_path: Path) -> None:
    (shown,) = blocks("placement-tests.md", "kind: PlacementTest")
    (tmp_path / "t.yaml").write_text(shown)
    (check,) = load_checks([tmp_path])
    check.run()


def test_the_tuning_can_be_read(tmp_path: Path) -> None:
    (shown,) = blocks("simulate.md", "objectives:")
    (tmp_path / "t.yaml").write_text(shown)
    (tmp_path / "scenario.yaml").write_text(
        "duration: 1m\ncluster: {nodes: [{name: 'n', cpu: 1, memory: 1Gi}]}\n"
    )
    tuning = load_tuning(tmp_path / "t.yaml")
    assert [each.minimize for each in tuning.objectives] == [True, True]


TABLES = {
    "distributions": (r"^\| `(\{(?:uniform|exp|normal|logn|pareto|choice).*\})` \|", "duration"),
    "arrivals": (r"^\| `(\{(?:at|every|poisson|diurnal|bursts).*\})` \|", "arrivals"),
}


@pytest.mark.parametrize("case", TABLES.values(), ids=TABLES)
def test_columns_of_the_documented_tables_exist(case: tuple[str, str]) -> None:
    pattern, field = case
    shown = re.findall(pattern, (ROOT / "docs" / "simulate.md").read_text(), re.MULTILINE)
    assert len(shown) >= 5
    for text in shown:
        parse_scenario(
            {
                "duration": "1h",
                "cluster": {"nodes": [{"name": "n", "cpu": 1, "memory": "1Gi"}]},
                "workloads": [{"name": "w", "cpu": "100m", field: yaml.safe_load(text)}],
            },
            Path(),
        )
