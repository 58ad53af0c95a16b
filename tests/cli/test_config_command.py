"""`kubesched config`: check a file, or show the complete configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from kubesched.cli.config_command import config
from kubesched.scheduler.config import default_configuration, load_configuration, written

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def run(*argv: str, given: str = "") -> Result:
    return CliRunner().invoke(config, list(argv), input=given)


def write(folder: Path, text: str) -> str:
    path = folder / "config.yaml"
    path.write_text(FILE + text)
    return str(path)


def test_a_valid_configuration_is_reported_as_ok(tmp_path: Path) -> None:
    file = write(tmp_path, "parallelism: 4\n")
    result = run("validate", file)
    assert (result.exit_code, result.output) == (0, f"{file}: ok\n")


def test_every_problem_is_a_line_that_begins_with_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "parallelism: 0\npodInitialBackoffSeconds: 0\n")
    result = run("validate", file)
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"{file}:3: parallelism: Invalid value: 0: should be an integer value greater than zero",
        f"{file}:4: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
    ]


def test_notes_follow_the_problems(tmp_path: Path) -> None:
    file = write(tmp_path, "paralelism: 1\ndisablePreemption: true\n")
    assert run("show", file).stderr.splitlines() == [
        f'{file}:3: strict decoding error: unknown field "paralelism"',
        "  paralelism: did you mean 'parallelism'?",
        f'{file}:4: strict decoding error: unknown field "disablePreemption"',
        "  disablePreemption was removed: disable the plugin DefaultPreemption in "
        "profiles[].plugins.multiPoint",
    ]


def test_profiles_that_cannot_be_built(tmp_path: Path) -> None:
    file = write(tmp_path, "profiles: [{plugins: {filter: {enabled: [{name: NodePort}]}}}]\n")
    result = run("validate", file)
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"{file}:3: initializing profiles: creating profile for scheduler name default-scheduler: "
        'FilterPlugin "NodePort" does not exist',
        "  did you mean 'NodePorts'?",
    ]


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    file = str(tmp_path / "nope")
    result = run("validate", file)
    assert (result.exit_code, result.stderr) == (2, f"{file}: no such file or directory\n")


def test_show_prints_what_write_config_to_writes(tmp_path: Path) -> None:
    text = "profiles: [{schedulerName: own}]\n"
    result = run("show", write(tmp_path, text))
    assert result.exit_code == 0
    assert result.output == written(load_configuration(FILE + text))


def test_show_prints_json(tmp_path: Path) -> None:
    result = run("show", "-", "-o", "json", given=FILE + "parallelism: 4\n")
    assert json.loads(result.output)["parallelism"] == 4


def test_default_needs_no_file() -> None:
    assert run("default").output == written(default_configuration())


def test_gates_decide_defaults() -> None:
    gates = "GenericWorkload=true,GangScheduling=true"
    (profile,) = yaml.safe_load(run("default", "--feature-gates", gates).output)["profiles"]
    assert profile["plugins"]["multiPoint"]["enabled"][-1]["name"] == "GangScheduling"


def test_a_plugin_from_a_file(tmp_path: Path) -> None:
    file = str(EXAMPLES / "spare_nodes_config.yaml")
    assert run("validate", file).exit_code == 2
    plugin = str(EXAMPLES / "spare_nodes.py")
    assert run("validate", file, "--plugin", plugin).exit_code == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "kind: 7", "\x00", "a: [", "'", "- - -"])
def test_a_file_without_a_configuration_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    result = run("validate", str(path))
    assert result.exit_code == 2
    assert result.stderr.startswith((f"{path}: ", f"{path}:1: "))


OTHER_FILES = {
    "cluster: {nodes: []}": ("a Scenario, not a KubeSchedulerConfiguration", "kubesched simulate"),
    "kind: Scenario": ("a Scenario, not a KubeSchedulerConfiguration", "kubesched simulate"),
    "{apiVersion: v1, kind: List, items: []}": (
        "a List, not a KubeSchedulerConfiguration",
        "kubesched up -f",
    ),
    "parallelism: 16": (
        "no kind: begin it with `apiVersion: kubescheduler.config.k8s.io/v1` and "
        "`kind: KubeSchedulerConfiguration`",
        "",
    ),
}


@pytest.mark.parametrize("text", OTHER_FILES)
def test_another_file_is_named_with_the_command_that_reads_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(text)
    says, command = OTHER_FILES[text]
    result = run("validate", str(path))
    first, *notes = result.stderr.splitlines()
    assert first == f"{path}:1: {says}"
    assert command in "".join(notes)
    assert len(notes) == bool(command)


def test_problems_as_json(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    path.write_text(f"{head}parallelism: -1\n")
    done = CliRunner().invoke(config, ["validate", str(path), "-o", "json"])
    assert done.exit_code == 2
    (problem,) = json.loads(done.stdout)["problems"]
    assert (problem["line"], problem["text"].partition(":")[0]) == (3, "parallelism")
    path.write_text(head)
    done = CliRunner().invoke(config, ["validate", str(path), "-o", "json"])
    assert (done.exit_code, json.loads(done.stdout)["problems"]) == (0, [])
    missing = CliRunner().invoke(config, ["validate", str(tmp_path / "none"), "-o", "json"])
    assert missing.exit_code == 2
    assert json.loads(missing.stdout)["problems"][0]["text"] == "no such file or directory"
