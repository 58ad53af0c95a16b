"""Searching for configurations."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kubesched.cli.main import cli
from kubesched.errors import ConfigError
from kubesched.scheduler.config.load import configuration_from_builtins
from kubesched.sim.tuning import best_trial, document_of, load_tuning, set_value, tune

SCENARIO = """\
duration: 30m
step: 10m
cluster:
  nodes:
  - {name: 'n', count: 3, cpu: 4, memory: 8Gi, zones: [a, b, c]}
workloads:
- {name: w, replicas: 3, cpu: 1, memory: 1Gi}
"""
TUNING = """\
scenario: s.yaml
trials: 6
parameters:
  profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy:
    choice:
    - {type: LeastAllocated, resources: [{name: cpu, weight: 1}]}
    - {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
  profiles[0].plugins.score.enabled[NodeResourcesFit].weight: {integer: [1, 20]}
objectives:
- minimize: cpu zone imbalance
"""


def test_a_value_is_set_at_its_path() -> None:
    document: dict[str, object] = {"profiles": [{"schedulerName": "x"}]}
    set_value(document, "profiles[0].plugins.score.enabled[A].weight", 3)
    set_value(document, "profiles[0].plugins.score.enabled[A].weight", 4)
    set_value(document, "percentageOfNodesToScore", 50)
    assert document == {
        "profiles": [
            {
                "schedulerName": "x",
                "plugins": {"score": {"enabled": [{"name": "A", "weight": 4}]}},
            }
        ],
        "percentageOfNodesToScore": 50,
    }


@pytest.mark.filterwarnings("ignore")
def test_the_front_is_found_and_the_search_repeats(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="the extra is not installed")
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "t.yaml").write_text(TUNING)
    tuning = load_tuning(tmp_path / "t.yaml")
    trials, again = tune(tuning), tune(tuning)
    assert trials == again
    best = [each for each in trials if each.is_on_front]
    assert best
    assert (
        min(each.values["cpu zone imbalance"] for each in trials)
        == (best[0].values["cpu zone imbalance"])
    )
    key = "profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy"
    assert {each.parameters[key]["type"] for each in best} == {"LeastAllocated"}
    chosen = best_trial(tuning, trials)
    assert chosen in best
    configuration = configuration_from_builtins(document_of(tuning, chosen.parameters))
    assert configuration.profiles[0].scheduler_name == "default-scheduler"


def test_the_best_configuration_is_written_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna", reason="the extra is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "t.yaml").write_text(TUNING)
    done = CliRunner().invoke(cli, ["tune", "t.yaml", "--trials", "1", "-o", "best.yaml"])
    assert done.exit_code == 0, done.output
    checked = CliRunner().invoke(cli, ["config", "validate", "best.yaml"])
    assert checked.exit_code == 0, checked.output
    wrong = CliRunner().invoke(cli, ["tune", "t.yaml", "-o", "best.txt"])
    assert wrong.exit_code == 2


@pytest.mark.parametrize(
    ("before", "after", "line", "want"),
    [
        ("{integer: [1, 20]}", "{whole: [1, 20]}", 8, "no kind 'whole'; known are integer"),
        ("{integer: [1, 20]}", "{integer: 3}", 8, "needs a list"),
        ("- minimize: cpu", "- less: cpu", 10, "objectives[0]: needs minimize or maximize"),
    ],
)
def test_mistakes(tmp_path: Path, before: str, after: str, line: int, want: str) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "t.yaml").write_text(TUNING.replace(before, after))
    with pytest.raises(ConfigError) as caught:
        load_tuning(tmp_path / "t.yaml")
    assert want in str(caught.value)
    assert "\n" not in str(caught.value)
