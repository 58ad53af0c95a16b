"""The notebooks in examples/ run from the first cell to the last, in a kernel."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples" / "notebooks").glob("*.ipynb"))
# In a separate process, because the client of kernels emits warnings, which are errors here.
RUN = """
import sys, nbclient, nbformat
book = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(book, timeout=120).execute()
outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
print(sum("image/png" in output.get("data", {}) for output in outputs))
"""


def test_both_notebooks_exist() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["capacity_study", "plugin_study"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", RUN, path.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) == 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    assert '"output_type"' not in path.read_text()
