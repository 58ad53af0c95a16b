"""`--run-plugins`: without it `simulate`, `check` and `tune` import no code that a file names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kubesched.cli.main import main
from kubesched.errors import ConfigError
from kubesched.explain.recordings.recording_player import RecordingPlayer
from kubesched.explain.recordings.segment_files import RecordingError
from kubesched.sim import load_scenario
from kubesched.sim.checks import load_checks

SCENARIO = """\
duration: 10m
cluster:
  nodes: [{name: 'n', count: 1, cpu: 4, memory: 8Gi}]
workloads:
- {name: w, arrivals: {at: [0]}, cpu: 1}
configurations:
- name: default
- name: mine
  plugins:
  - PLUGIN
"""
CHECK = """\
name: a
given:
  nodes: [{name: 'n', count: 1, cpu: 4, memory: 8Gi}]
when:
- pods: {name: w, cpu: 1}
then:
- placed: {}
configuration:
  plugins:
  - PLUGIN
"""
TUNING = """\
scenario: simulate.yaml
trials: 1
parameters:
  profiles[0].plugins.score.enabled[NodeResourcesFit].weight: {integer: [1, 2]}
objectives: [{minimize: cost}]
"""
CODE = """\
from pathlib import Path
from kubesched.framework import Plugin
Path(__file__).with_suffix(".ran").touch()
class Planted(Plugin):
    name = "Planted"
    def filter(self, state, pod, node):
        return None
"""
PLUGINS = ("planted.py", "planted.py:Planted", "planted:Planted")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["kubesched"])
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    (tmp_path / "planted.py").write_text(CODE)
    (tmp_path / "tune.yaml").write_text(TUNING)
    return tmp_path


def write(place: Path, plugin: str) -> None:
    (place / "simulate.yaml").write_text(SCENARIO.replace("PLUGIN", plugin))
    (place / "check.yaml").write_text(CHECK.replace("PLUGIN", plugin))


def has_run(place: Path) -> bool:
    return (place / "planted.ran").exists()


def end_of(*arguments: str) -> int:
    sys.argv[:] = ["kubesched", *arguments]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("command", ["simulate", "check", "tune"])
def test_code_that_a_file_names_needs_the_flag(
    place: Path, command: str, plugin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place, plugin)
    assert end_of(command, f"{command}.yaml") == 2
    (line,) = capsys.readouterr().err.splitlines()
    file = "check.yaml:10" if command == "check" else "simulate.yaml:10"
    assert line.startswith(f"{file}: configuration")
    assert f"plugin {plugin} " in line
    assert "--run-plugins" in line
    assert not has_run(place)


@pytest.mark.parametrize("command", ["simulate", "check"])
def test_with_the_flag_the_code_is_run(place: Path, command: str) -> None:
    write(place, "planted.py")
    parallel = ["--processes", "1"] if command == "simulate" else []
    assert end_of(command, f"{command}.yaml", "--run-plugins", *parallel) == 0
    assert has_run(place)


def test_both_scenarios_of_a_difference_need_the_flag(place: Path) -> None:
    write(place, "planted.py")
    (place / "plain.yaml").write_text(SCENARIO.partition("configurations")[0])
    assert end_of("simulate", "--diff", "plain.yaml", "simulate.yaml") == 2
    assert not has_run(place)


def test_an_installed_plugin_needs_no_flag(place: Path) -> None:
    write(place, "kubesched.contrib.coscheduling.plugin:Coscheduling")
    load_scenario("simulate.yaml", run_plugins=False)


def test_python_callers_choose(place: Path) -> None:
    write(place, "planted.py")
    with pytest.raises(ConfigError, match="--run-plugins"):
        load_checks(["check.yaml"], run_plugins=False)
    assert not has_run(place)
    load_checks(["check.yaml"])
    assert has_run(place)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_plugins_of_a_recording_must_be_installed_or_named(plugin: str, place: Path) -> None:
    with pytest.raises(RecordingError, match="which is not installed") as caught:
        RecordingPlayer({"plugins": [plugin]})
    assert caught.value.__notes__ == [f"--plugin {plugin} allows to run its code"]
    assert not (place / "planted.ran").exists()
