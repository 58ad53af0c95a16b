"""Fuzzing for some minutes: `python -m tests.fuzz --minutes 10`.

Each round tries other inputs, as many as fit into the time left. The last line says whether all
tests held.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

# A round tries this many times the inputs of `make test`, at least and at most.
_LEAST, _MOST = 2, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    started = time.monotonic()
    until = started + 60 * options.minutes
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(options.jobs), "--dist", "worksteal"]
    rounds, times = 0, _LEAST
    while rounds == 0 or times >= _LEAST:
        rounds += 1
        seed = random.randrange(2**32)
        print(f"round {rounds}: KUBESCHED_FUZZ={times} --hypothesis-seed={seed}", flush=True)
        began = time.monotonic()
        done = subprocess.run(
            # A test takes longer than in `make test` by that factor; there ten minutes are a hang.
            [
                *(*command, "--timeout", str(600 * times)),
                *(f"--hypothesis-seed={seed}", str(Path(__file__).parent)),
            ],
            env={**os.environ, "KUBESCHED_FUZZ": str(times)},
            check=False,
        )
        if done.returncode:
            print(f"round {rounds} did not hold")
            sys.exit(1)
        now = time.monotonic()
        # As much as fits into the time left, estimated from the round before.
        times = min(_MOST, int(times * (until - now) / (now - began)))
    print(f"{rounds} rounds held, in {(now - started) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
