"""A digest depends on the scenario, the configuration and the seed, and on nothing else.

The digest of one scenario is recorded here, and every version of Python must compute it. It may
change only with an intended change of a run: a decision of the scheduler, the order of writes, an
additional random number. All measures may then differ as well, and CHANGELOG.md has to say so. It
must not depend on Python, NumPy, the platform or the speed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubesched.sim.simulation import simulate
from tests.sim.scenarios import digest, scenario

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120

RECORDED = "bb40c0bfb688b461124d6a2c97243e53"

PRINT = "from tests.sim.scenarios import digest; print(digest())"


def test_the_digest_equals_the_recorded_one() -> None:
    assert digest() == RECORDED


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_the_order_of_hashes_does_not_matter(hash_seed: str) -> None:
    assert printed(sys.executable, hash_seed) == RECORDED


def test_earlier_runs_do_not_affect_the_digest() -> None:
    others = scenario(duration="30m")
    for seed in (9, 8, 7):
        simulate(others, others.configurations[0], seed)
    assert digest() == RECORDED


def other_pythons() -> list[str]:
    """Return other versions of Python on this machine: `python3.X`, or those of PYTHONS."""
    named = [each for each in os.environ.get("PYTHONS", "").split(os.pathsep) if each]
    mine = f"python3.{sys.version_info.minor}"
    names = [f"python3.{minor}" for minor in range(11, 20)]
    found = [path for name in names if name != mine and (path := shutil.which(name)) is not None]
    return named + found


@pytest.mark.slow
def test_the_digest_is_the_same_in_other_python_versions() -> None:
    able = [each for each in other_pythons() if can_import_the_package(each)]
    if not able:
        pytest.skip("no other python3.X with NumPy and msgspec; PYTHONS may name some, by path")
    assert {each: printed(each, "0") for each in able} == dict.fromkeys(able, RECORDED)


def can_import_the_package(python: str) -> bool:
    """Whether a Python has the packages that a simulation needs."""
    return run(python, "import kubesched.sim", "0").returncode == 0


def printed(python: str, hash_seed: str) -> str:
    done = run(python, PRINT, hash_seed)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run(python: str, code: str, hash_seed: str) -> subprocess.CompletedProcess[str]:
    """Run code with the package and these tests, without other settings of this environment."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {
        name: value for name, value in os.environ.items() if not re.match("PYTHON|VIRTUAL", name)
    }
    return subprocess.run(
        [python, "-c", code],
        env={**environment, "PYTHONPATH": paths, "PYTHONHASHSEED": hash_seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
