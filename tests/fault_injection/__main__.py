"""Fault injection from seeds: `python -m tests.fault_injection --seeds 1000 --from 50000`.

The last line is the number of seeds whose runs hold. The command exits with 1 if one does not. The
plan of a failing seed is shrunk, and its log is printed with the command that runs the seed again.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.fault_injection.mutants.catalog import MUTANTS, detect
from tests.fault_injection.plan import make_plan
from tests.fault_injection.run import run_plan
from tests.fault_injection.shrinking import shrink_plan

_LOG_LINES_SHOWN = 60
_FAILURES_SHOWN = 3
_COLLECT_EVERY = 8
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


def main() -> None:
    options = _arguments()
    if options.mutants:
        seeds = 500 if options.seeds is None else options.seeds
        _detect_mutants(options.only, seeds, options.jobs, options.write)
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


def _detect_mutants(only: str, seeds: int, jobs: int, page: Path | None) -> None:
    names = [name for name in MUTANTS if only in name]
    rows: list[tuple[str, tuple[int, str] | None]] = []
    with ProcessPoolExecutor(jobs) as pool:
        detected = pool.map(detect, names, [seeds] * len(names))
        for name, found in zip(names, detected, strict=True):
            rows.append((name, found))
            if found is None:
                print(f"NOT DETECTED: {name}", flush=True)
            else:
                print(f"seed {found[0]:3}: {name}: {found[1][:90]}", flush=True)
    missed = sum(found is None for _, found in rows)
    summary = f"{len(names) - missed} of {len(names)} mutants are detected"
    if page is not None:
        page.write_text(_mutant_page(rows, f"{summary} by a seed below {seeds}."))
    print(summary)
    sys.exit(1 if missed else 0)


def _mutant_page(rows: list[tuple[str, tuple[int, str] | None]], summary: str) -> str:
    """Return a page with one row for each mutant."""
    lines = [
        "# Mutants and the seeds that detect them",
        "",
        "`python -m tests.fault_injection --mutants --write docs/mutants.md` writes this page.",
        "[reliability.md](reliability.md#mutants) says what a mutant is. " + summary,
        "",
        "| mutant | seed | first violation |",
        "|---|---|---|",
    ]
    for name, found in rows:
        seed, text = ("none", "not detected") if found is None else found
        # Uids differ between runs of different versions, and say nothing.
        text = _UID.sub("…", text[:160]).replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"| {name} | {seed} | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
