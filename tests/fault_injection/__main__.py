"""Storms from seeds: `python -m tests.fault_injection --seeds 1000 --from 50000`.

The last line says how many seeds hold; exit 1 if one does not. A seed that fails is made smaller
and told as a story, with the command that runs it again.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.fault_injection.plan import make_plan
from tests.fault_injection.planted_bugs import PLANTED, caught_by
from tests.fault_injection.run import run_plan
from tests.fault_injection.shrinking import shrink_plan

_LOG_LINES_SHOWN = 60
_FAILURES_SHOWN = 3
_COLLECT_EVERY = 8


def main() -> None:
    options = _arguments()
    if options.planted:
        _plant(options.seeds or 500, options.jobs)
    seeds = range(options.first, options.first + (options.seeds or 100))
    digest = hashlib.sha256()
    faults: Counter[str] = Counter()
    failed: list[int] = []
    started = time.perf_counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, (violations, outcome, happened) in zip(
            seeds, pool.map(_run, seeds, chunksize=4), strict=True
        ):
            digest.update(outcome.encode())
            faults.update(happened)
            if violations:
                failed.append(seed)
                print(f"seed {seed}: {violations[0]}", flush=True)
            done = seed - options.first + 1
            if done % 50 == 0:
                print(f"{done} of {len(seeds)}", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - started
    for number, seed in enumerate(failed):
        if number < _FAILURES_SHOWN:
            _log(seed)
        print(f"again: python -m tests.fault_injection --from {seed} --seeds 1", flush=True)
    if options.faults:
        for what, count in sorted(faults.items()):
            print(f"{count:7} {what}")
    print(f"{seconds:.0f} s, {len(seeds) / seconds:.1f} seeds/s, digest {digest.hexdigest()[:16]}")
    print(f"{len(seeds) - len(failed)} of {len(seeds)} seeds hold")
    sys.exit(1 if failed else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fault_injection",
        description="Run storms from seeds and check what must hold.",
        epilog="example: python -m tests.fault_injection --seeds 1000 --from 50000",
    )
    parser.add_argument("--seeds", type=int, help="how many (100; of planted bugs at most 500)")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--planted", action="store_true", help="plant known bugs, and see that each is noticed"
    )
    parser.add_argument(
        "--faults", action="store_true", help="print how often each fault was in somebody's way"
    )
    return parser.parse_args()


def _run(seed: int) -> tuple[list[str], str, Counter[str]]:
    try:
        outcome = run_plan(make_plan(seed))
    except Exception as error:
        # A run that ends like this is a finding too, and no reason not to try the next.
        return [f"the run fails: {error!r}"], f"{seed} fails", Counter()
    if seed % _COLLECT_EVERY == 0:
        gc.collect()
    return outcome.violations, outcome.digest, outcome.faults


def _log(seed: int) -> None:
    """The shortest plan that fails in the same way, as a story."""
    smaller = shrink_plan(make_plan(seed))
    outcome = run_plan(smaller)
    print(f"\nseed {seed}, made smaller: {len(smaller.steps)} steps, {smaller.replicas} replicas")
    for line in outcome.log[-_LOG_LINES_SHOWN:]:
        print(f"  {line}")


def _plant(seeds: int, jobs: int) -> None:
    missed = 0
    with ProcessPoolExecutor(jobs) as pool:
        found = pool.map(caught_by, PLANTED, [seeds] * len(PLANTED))
        for name, caught in zip(PLANTED, found, strict=True):
            missed += caught is None
            if caught is None:
                print(f"NOT NOTICED: {name}", flush=True)
            else:
                print(f"seed {caught[0]:3}: {name}: {caught[1][:90]}", flush=True)
    print(f"{len(PLANTED) - missed} of {len(PLANTED)} planted bugs are noticed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
