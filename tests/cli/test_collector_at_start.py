"""`kubesched run` sets up the garbage collector before it reads the cluster."""

from __future__ import annotations

import subprocess
import sys

# Prints how many objects are frozen when the process is built, and ends.
PROBE = """
import gc
from kubesched.errors import KubeschedError
from kubesched.scheduler.process import shadow_process

def build_process(*arguments, **options):
    print(gc.get_freeze_count())
    raise KubeschedError("enough")

shadow_process.build_process = build_process
from kubesched.cli.main import cli
cli.main(["run", "--master=http://127.0.0.1:1", "--secure-port=0"], prog_name="kubesched")
"""
_IMPORTED_OBJECTS = 50_000


def test_what_was_imported_is_frozen_before_caches_are_filled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=False
    )
    assert "enough" in done.stderr, done.stderr
    assert int(done.stdout) > _IMPORTED_OBJECTS
