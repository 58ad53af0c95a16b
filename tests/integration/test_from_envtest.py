"""The programs on the page for users of envtest work as shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/howto/from-envtest.md").read_text()
FILES = dict(re.findall(r'^```\w+ title="(.+?)"\n(.*?)^```', PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def run(folder: Path, *command: str) -> str:
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ,
        "HOME": str(folder),
        "KUBECONFIG": str(folder / "kubeconfig"),
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(folder / "state"),
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_python_test_passes(folder: Path) -> None:
    assert sorted(FILES) == ["check.sh", "test_widgets.py", "widgets.yaml"]
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_widgets.py")
    assert "1 passed" in run(folder, *command)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_shell_script_succeeds(folder: Path) -> None:
    printed = run(folder, "bash", "-eu", "check.sh")
    assert "deployment.apps/web condition met" in printed
    assert "widget.example.com/one created" in printed
