"""The files of the project's host parse, and name what exists."""

from __future__ import annotations

import re
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
