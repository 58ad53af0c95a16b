"""Tests of scheduler commands with custom plugins (`kubesched.app`)."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kubesched import app
from kubesched.framework import SUCCESS, Plugin, Status

PROGRAM = """
import msgspec
from kubesched import app
from kubesched.framework import SUCCESS, Plugin

class Args(msgspec.Struct, rename="camel"):
    label_key: str

class House(Plugin):
    args_type = Args
    def filter(self, state, pod, node):
        return SUCCESS

def other(args, handle):
    return House(args, handle)

if __name__ == "__main__":
    app.main(plugins={"House": House, "Other": other})
"""
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: House}, {name: Other}]
  pluginConfig:
  - {name: House, args: {labelKey: example.com/spare}}
  - {name: Other, args: {anything: 1}}
"""


class Gate(Plugin):
    name = "Gate"

    def pre_enqueue(self, pod: object) -> Status:
        return SUCCESS


def program(folder: Path, *argv: str, config: str = CONFIG) -> subprocess.CompletedProcess[str]:
    (folder / "house.py").write_text(PROGRAM)
    (folder / "config.yaml").write_text(config)
    command = [sys.executable, "house.py", "--master=m", "--secure-port=0", *argv]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_program_takes_what_the_command_takes(tmp_path: Path) -> None:
    done = program(tmp_path, "--config=config.yaml", "--write-config-to=out.yaml")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    out = (tmp_path / "out.yaml").read_text()
    assert "labelKey: example.com/spare" in out
    assert "anything: 1" in out, "without a type, arguments stay as they are"


def test_arguments_are_decoded_into_the_type_of_the_factory(tmp_path: Path) -> None:
    wrong = CONFIG.replace("labelKey:", "labelKy:")
    done = program(tmp_path, "--config=config.yaml", "--write-config-to=out", config=wrong)
    assert done.returncode == 1
    assert 'unknown field \\"labelKy\\"' in done.stderr
    assert "labelKy: did you mean 'labelKey'?" in done.stderr


def test_the_help_names_the_program(tmp_path: Path) -> None:
    done = program(tmp_path, "--help")
    assert "\nUsage:\n  house.py [flags]\n" in done.stdout


def test_a_command_can_be_part_of_another() -> None:
    group = click.Group("tools", commands=[app.command({"Gate": Gate}, name="schedule")])
    shown = CliRunner().invoke(group, ["schedule", "--version"], prog_name="tools")
    assert (shown.exit_code, shown.output.split()[0]) == (0, "Kubernetes")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an object": ({"X": 3}, "Error: plugin X: 3 is not callable\n"),
    "a partial that takes no handle": (
        {"X": functools.partial(Gate, 1, 2)},
        "Error: plugin X: functools.partial(<class 'tests.test_app.Gate'>, 1, 2) is not called "
        "with (args, handle): too many positional arguments\n",
    ),
}


@pytest.mark.parametrize(("plugins", "want"), BAD.values(), ids=BAD)
def test_a_bad_factory_is_found_at_once(
    plugins: dict[str, Any], want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app.main(plugins=plugins, argv=["--version"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == want
