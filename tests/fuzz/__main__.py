"""Fuzz for a while: `python -m tests.fuzz --minutes 10`. The last line says whether all held."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

_TIMES = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    # A test takes twenty times as long as in `make test`, which counts ten minutes as hanging.
    limit = ["--timeout", str(600 * _TIMES)]
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(options.jobs), *limit]
    rounds = 0
    while time.monotonic() < until:
        rounds += 1
        seed = random.randrange(2**32)
        print(f"round {rounds}: KUBESCHED_FUZZ={_TIMES} --hypothesis-seed={seed}", flush=True)
        done = subprocess.run(
            [*command, f"--hypothesis-seed={seed}", str(Path(__file__).parent)],
            env={**os.environ, "KUBESCHED_FUZZ": str(_TIMES)},
            check=False,
        )
        if done.returncode:
            print(f"round {rounds} did not hold")
            sys.exit(1)
    print(f"{rounds} rounds held")


if __name__ == "__main__":
    main()
