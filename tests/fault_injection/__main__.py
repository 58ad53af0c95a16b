"""Fault injection from seeds: `python -m tests.fault_injection --seeds 1000 --from 50000`.

The last line is the number of seeds whose runs hold. The command exits with 1 if one does not. The
plan of a failing seed is shrunk, and its log is printed with the command that runs the seed again.
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
from pathlib import Path

from tests.fault_injection.mutants.catalog import MUTANTS, detect
from tests.fault_injection.mutants.mutant_page import (
    MutantRow,
    current_commit,
    detected_rows,
    page_of,
    read_rows,
)
from tests.fault_injection.plan import make_plan
from tests.fault_injection.run import run_plan
from tests.fault_injection.shrinking import shrink_plan

_LOG_LINES_SHOWN = 60
_FAILURES_SHOWN = 3
_COLLECT_EVERY = 8
_MOST_SEEDS = 500  # for a mutant


def main() -> None:
    options = _arguments()
    if options.mutants:
        _detect_mutants(options)
    seeds = range(options.first, options.first + (options.seeds or 100))
    digest = hashlib.sha256()
    faults: Counter[str] = Counter()
    failed: list[int] = []
    started = time.perf_counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, (violations, outcome, injected) in zip(
            seeds, pool.map(_run, seeds, chunksize=4), strict=True
        ):
            digest.update(outcome.encode())
            faults.update(injected)
            if violations:
                failed.append(seed)
                print(f"seed {seed}: {violations[0]}", flush=True)
            done = seed - options.first + 1
            if done % 50 == 0:
                print(f"{done} of {len(seeds)}", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - started
    for number, seed in enumerate(failed):
        if number < _FAILURES_SHOWN:
            _print_failure(seed)
        print(f"again: python -m tests.fault_injection --from {seed} --seeds 1", flush=True)
    if options.faults:
        for fault, count in sorted(faults.items()):
            print(f"{count:7} {fault}")
    print(f"{seconds:.0f} s, {len(seeds) / seconds:.1f} seeds/s, digest {digest.hexdigest()[:16]}")
    print(f"{len(seeds) - len(failed)} of {len(seeds)} seeds hold")
    sys.exit(1 if failed else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fault_injection",
        description="Run clusters under injected faults, from seeds, and check the invariants.",
        epilog="example: python -m tests.fault_injection --seeds 1000 --from 50000",
    )
    parser.add_argument("--seeds", type=int, help="number of seeds (100; for mutants 500 at most)")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--mutants",
        "--planted",
        action="store_true",
        help="activate one mutant after the other, and check that each is detected",
    )
    parser.add_argument("--write", type=Path, help="write the table of mutants to this file")
    parser.add_argument(
        "--resume", action="store_true", help="skip mutants that this file has as detected"
    )
    parser.add_argument("--only", default="", help="only mutants whose names contain this text")
    parser.add_argument(
        "--faults", action="store_true", help="print how often each fault took effect"
    )
    return parser.parse_args()


def _run(seed: int) -> tuple[list[str], str, Counter[str]]:
    try:
        outcome = run_plan(make_plan(seed))
    except Exception as error:
        # A run that ends with an exception is a finding. The next seed is run all the same.
        return [f"the run fails: {error!r}"], f"{seed} fails", Counter()
    if seed % _COLLECT_EVERY == 0:
        gc.collect()
    return outcome.violations, outcome.digest, outcome.faults


def _print_failure(seed: int) -> None:
    """Print the log of the smallest plan that fails in the same way."""
    smaller = shrink_plan(make_plan(seed))
    outcome = run_plan(smaller)
    print(f"\nseed {seed}, shrunk: {len(smaller.steps)} steps, {smaller.replicas} replicas")
    for line in outcome.log[-_LOG_LINES_SHOWN:]:
        print(f"  {line}")


def _detect_mutants(options: argparse.Namespace) -> None:
    page: Path | None = options.write
    names = [name for name in MUTANTS if options.only in name]
    rows = {} if page is None else read_rows(page)
    found = detected_rows(rows, names) if options.resume else {}
    todo = [name for name in names if name not in found]
    seeds, commit = options.seeds or _MOST_SEEDS, current_commit()
    with ProcessPoolExecutor(options.jobs) as pool:
        for name, each in zip(todo, pool.map(detect, todo, [seeds] * len(todo)), strict=True):
            found[name] = rows[name] = MutantRow.of(each, commit)
            if each.seed is None:
                print(f"NOT DETECTED: {name} {each.text}".rstrip(), flush=True)
            else:
                print(f"seed {each.seed:3}: {name}: {each.text[:90]}", flush=True)
            if page is not None:
                page.write_text(page_of(rows))
    missed = sum(row.seed is None for row in found.values())
    print(f"{len(names) - missed} of {len(names)} mutants are detected")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
