"""The files of the project's host parse, and name what exists."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / ".github").rglob("*.yml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_of_the_host_is_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_the_workflow_tests_every_version_that_the_package_names() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    tested = set(workflow["jobs"]["wheel"]["strategy"]["matrix"]["python"])
    text = (ROOT / "pyproject.toml").read_text()
    assert set(re.findall(r"Python :: (3\.\d+)", text)) <= tested
    assert any(step.get("run") == ".ci/run" for step in workflow["jobs"]["test"]["steps"])


@pytest.mark.parametrize("name", ["SECURITY.md", ".github/pull_request_template.md"])
def test_files_that_are_named_exist(name: str) -> None:
    named = re.findall(r"(?<![/\w])(?:docs/)?[\w-]+\.md", (ROOT / name).read_text())
    assert named
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_the_checklist_names_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"`make (\w+)", (ROOT / "docs" / "releasing.md").read_text()))
    assert named
    assert named <= targets


def _listed_modules() -> list[str]:
    """The modules that setup.py compiles on request."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    (listed,) = (
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "_COMPILED"
    )
    return list(listed)


def test_modules_that_are_compiled_on_request_exist() -> None:
    listed = _listed_modules()
    assert listed == sorted(set(listed))
    assert [each for each in listed if not (ROOT / "src/kubesched" / f"{each}.py").exists()] == []


def test_a_checkout_runs_the_sources_of_modules_that_can_be_compiled() -> None:
    compiled = [*(ROOT / "src").glob("*__mypyc*")]
    assert not compiled, "compiled modules hide changes of their sources: remove them"


def test_an_editable_installation_refuses_to_compile_modules() -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "editable_wheel"],
        cwd=ROOT,
        env={**os.environ, "KUBESCHED_COMPILE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("KUBESCHED_COMPILE=1: modules are not compiled")
