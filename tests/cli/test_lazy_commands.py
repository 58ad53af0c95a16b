"""`--help` and `--version` load only what they show: no scheduler, no cluster, no NumPy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kubesched.cli.main import COMMANDS

# Numbers of modules of this package. `run` needs the tables of its flags.
MOST_MODULES = {"run": 110, "node": 60}
MOST_OF_OTHERS = 12

COUNT = """
import sys
from kubesched.cli.main import cli
try:
    cli.main(sys.argv[1:], prog_name="kubesched", standalone_mode=False)
except SystemExit:
    pass
own = [name for name in sys.modules if name.split(".")[0] == "kubesched"]
print(len(own), int("numpy" in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], *[[c, "--help"] for c in COMMANDS]]
)
def test_help_loads_only_what_it_shows(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout
    modules, has_numpy = map(int, done.stderr.split())
    assert modules <= MOST_MODULES.get(arguments[0], MOST_OF_OTHERS)
    assert not has_numpy
