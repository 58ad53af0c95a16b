"""Run seeds: `python -m tests.torture --seeds 1000 --from 50000`.

The last line says how many seeds hold; exit 1 if one does not. A seed that fails is made smaller
and told as a story, with the command that runs it again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.torture.cluster_plan import make_plan
from tests.torture.run import run_plan
from tests.torture.shrinking import shrunk

_STORY_SHOWN = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    digest = hashlib.sha256()
    failed: list[int] = []
    started = time.perf_counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, (violations, outcome) in zip(
            seeds, pool.map(_run, seeds, chunksize=4), strict=True
        ):
            digest.update(outcome.encode())
            if violations:
                failed.append(seed)
                print(f"seed {seed}: {violations[0]}", flush=True)
            done = seed - options.first + 1
            if done % 50 == 0:
                print(f"{done} of {options.seeds}", file=sys.stderr, flush=True)
    for seed in failed[:3]:
        _tell(seed)
    seconds = time.perf_counter() - started
    print(
        f"{seconds:.0f} s, {options.seeds / seconds:.1f} seeds/s, digest {digest.hexdigest()[:16]}"
    )
    print(f"{options.seeds - len(failed)} of {options.seeds} seeds hold")
    sys.exit(1 if failed else 0)


def _run(seed: int) -> tuple[list[str], str]:
    outcome = run_plan(make_plan(seed))
    return outcome.violations, outcome.digest


def _tell(seed: int) -> None:
    """The shortest plan that fails in the same way, as a story."""
    smaller = shrunk(make_plan(seed))
    outcome = run_plan(smaller)
    print(f"\nseed {seed}, made smaller: {len(smaller.steps)} steps, {smaller.replicas} replicas")
    for line in outcome.story[-_STORY_SHOWN:]:
        print(f"  {line}")
    print(f"again: python -m tests.torture --from {seed} --seeds 1\n", flush=True)


if __name__ == "__main__":
    main()
