"""The built package works in an empty environment, and leaves nothing behind when it is removed."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import kubesched
from tests.documents.page_blocks import blocks_of, commands_of, missing_line
from tests.integration.wheel_environment import (
    ROOT,
    EmptyEnvironment,
    build_distributions,
    build_wheel,
    copy_sources,
)

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: plain}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: reserve, labels: {example.com/reserve: "true"}}
status: {allocatable: {cpu: "64", memory: 64Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: c, image: app, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: c, image: app, resources: {requests: {cpu: "8"}}}]}
"""
PLUGIN_PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "spare-nodes"
version = "1.0.0"
dependencies = ["kubesched"]

[project.entry-points."kubesched.plugins"]
SpareNodes = "spare_nodes:SpareNodes"

[tool.setuptools]
py-modules = ["spare_nodes"]
"""
WHICH_LOOPS = "from kubesched.framework.engine import kernels; print(kernels.compiled is not None)"
UP = ("kubesched", "up", "-f", "cluster.yaml", "--exit", "--quiet", "-o", "json")


def placed(environment: EmptyEnvironment, *arguments: str) -> dict[str, Any]:
    done = environment.command(*UP, *arguments)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def plugin_wheel(folder: Path) -> Path:
    project = folder / "plugin"
    project.mkdir()
    (project / "pyproject.toml").write_text(PLUGIN_PROJECT)
    shutil.copy(ROOT / "examples" / "spare_nodes.py", project)
    return build_wheel(project, folder / "plugin-wheel")


def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    sdist, wheel = build_distributions(tmp_path)
    version = kubesched.__version__
    assert sdist.name == f"kubesched-{version}.tar.gz"
    assert wheel.name.startswith(f"kubesched-{version}-cp")
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if name.endswith((".so", ".pyc"))]

    environment = EmptyEnvironment(tmp_path, wheel)
    before = set(environment.packages.rglob("*"))
    environment.install(wheel)
    (environment.work / "cluster.yaml").write_text(CLUSTER)
    shutil.copy(ROOT / "examples" / "spare_nodes_config.yaml", environment.work / "config.yaml")
    assert environment.command("kubesched", "--version").stdout == f"kubesched, version {version}\n"
    if shutil.which("gcc"):
        assert environment.command("python", "-c", WHICH_LOOPS).stdout == "True\n"

    assert placed(environment)["bound"] == 2
    missing = environment.command(*UP, "--config", "config.yaml")
    assert missing.returncode == 2
    assert 'Plugin "SpareNodes" does not exist' in missing.stderr

    environment.install(plugin_wheel(tmp_path))
    summary = placed(environment, "--config", "config.yaml")
    assert [pod["name"] for pod in summary["pending"]] == ["large"]
    explain = ("kubesched", "explain", "pod", "default/large", "-f", "cluster.yaml")
    explained = environment.command(*explain, "--config", "config.yaml")
    assert "node(s) were held as spare" in explained.stdout, explained.stderr

    environment.uninstall("spare-nodes")
    environment.uninstall("kubesched")
    assert not (environment.scripts / "kubesched").exists()
    left = set(environment.packages.rglob("*")) - before
    assert {path for path in left if "__pycache__" not in path.parts} == set()


def follow_the_tutorial(environment: EmptyEnvironment) -> None:
    """Write the files of the page and run its commands, in their order."""
    for block in blocks_of("docs/tutorial.md"):
        if block.title:
            (environment.work / block.title).write_text(block.text)
        elif block.language == "console" and not block.reason:
            for command in commands_of(block):
                done = environment.command("sh", "-c", f"{command.line} 2>&1")
                assert done.returncode == 0, done.stdout
                missing = missing_line(command.shown, done.stdout)
                assert missing is None, f"{command.line}\n{missing}\n{done.stdout}"


def test_the_tutorial_works_with_the_wheel_alone(tmp_path: Path) -> None:
    wheel = build_wheel(copy_sources(tmp_path / "sources"), tmp_path / "dist")
    environment = EmptyEnvironment(tmp_path, wheel, more=["pytest"])
    environment.install(wheel)
    follow_the_tutorial(environment)
    assert (environment.work / "test_batch_pool.py").exists()


def test_without_a_compiler_the_package_works_the_same(tmp_path: Path) -> None:
    sources = copy_sources(tmp_path / "sources")
    wheel = build_wheel(sources, tmp_path / "pure", CC="/bin/false")
    environment = EmptyEnvironment(tmp_path, wheel)
    environment.install(wheel)
    (environment.work / "cluster.yaml").write_text(CLUSTER)
    assert environment.command("python", "-c", WHICH_LOOPS).stdout == "False\n"
    summary = placed(environment)
    assert (summary["bound"], summary["pending"]) == (2, [])
