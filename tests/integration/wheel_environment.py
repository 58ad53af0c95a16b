"""The package as a user installs it: built, and installed without access to this repository."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD_INPUTS = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src")


def copy_sources(folder: Path) -> Path:
    """Copy what a clean clone has of the package's sources."""
    unwanted = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    folder.mkdir()
    for name in BUILD_INPUTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=unwanted)
        else:
            shutil.copy(source, folder / name)
    return folder


def run(*command: str | Path, **variables: str) -> str:
    """Run a tool of the development environment and return its output."""
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def build_distributions(folder: Path) -> tuple[Path, Path]:
    """Build the sdist and, from it, the wheel, as `make dist` does."""
    sources = copy_sources(folder / "sources")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", sources)
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    (wheel,) = (folder / "dist").glob("*.whl")
    return sdist, wheel


def build_wheel(source: Path, folder: Path, **variables: str) -> Path:
    """Build the wheel of an sdist or of a folder."""
    folder.mkdir()
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*pip, "--wheel-dir", folder, source, **variables)
    (wheel,) = folder.glob("*.whl")
    return wheel


class EmptyEnvironment:
    """A virtual environment with the declared dependencies of kubesched and `more`.

    The dependencies are linked from the environment of the tests: a package that is imported but
    not declared is missing here.
    """

    def __init__(self, folder: Path, wheel: Path, more: Iterable[str] = ()) -> None:
        self.folder = folder
        self.work = folder / "work"
        venv.create(folder / "env", with_pip=False)
        self.work.mkdir()
        self.scripts = folder / "env" / "bin"
        self._python = self.scripts / "python"
        (self.packages,) = (folder / "env" / "lib").glob("python*/site-packages")
        for distribution in _needed([*_declared(wheel), *more]).values():
            self._link(distribution)

    def _link(self, distribution: importlib.metadata.Distribution) -> None:
        for top in {file.parts[0] for file in distribution.files or ()} - {".."}:
            if top != "__pycache__":
                (self.packages / top).symlink_to(Path(str(distribution.locate_file(top))))

    def install(self, wheel: Path) -> None:
        self._pip("install", "--no-deps", "--no-index", "--no-compile", str(wheel))

    def uninstall(self, name: str) -> None:
        self._pip("uninstall", "--yes", name)

    def _pip(self, *arguments: str) -> None:
        quiet = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
        run(sys.executable, "-m", "pip", "--python", self._python, *arguments, *quiet)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment in an empty folder, with empty variables."""
        return subprocess.run(
            arguments,
            cwd=self.work,
            env={"PATH": f"{self.scripts}:/usr/bin:/bin", "HOME": str(self.work)},
            capture_output=True,
            text=True,
            check=False,
        )


def _declared(wheel: Path) -> list[str]:
    """Return the requirements in the metadata of a wheel."""
    name, version, *_ = wheel.name.split("-")
    inside = zipfile.Path(wheel, f"{name}-{version}.dist-info/")
    return importlib.metadata.PathDistribution(inside).requires or []


def _needed(requirements: Iterable[str]) -> dict[str, importlib.metadata.Distribution]:
    """Return what the requirements need here, without extras, by its normalized name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(requirements)
    while waiting:
        wanted, _, marker = waiting.pop().partition(";")
        matched = re.match(r"[A-Za-z0-9._-]+", wanted)
        assert matched is not None, wanted
        name = re.sub(r"[._-]+", "-", matched[0]).lower()
        if "extra" in marker or name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            assert marker, f"{name} is not installed"  # needed with other versions of Python only
        else:
            waiting += found[name].requires or []
    return found
