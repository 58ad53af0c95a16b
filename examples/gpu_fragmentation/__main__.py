"""Fill a GPU cluster with a trace's pods under one of six policies, and print the result.

    python -m examples.gpu_fragmentation --policy FGD --policy BestFit
    python -m examples.gpu_fragmentation --trace DIR --workload default --policy FGD \\
        --seeds 42-51 -o json

`gpu_allocation` and the two measures of fragments have a value for each percent, from 0 to 130,
of the cluster's GPU that was asked for so far. Without --trace it is a small made-up cluster;
README.md beside this file says where to get the published trace.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from examples.gpu_fragmentation.experiment import Trace, run
from examples.gpu_fragmentation.policies import POLICIES
from examples.gpu_fragmentation.trace import TraceError
from kubesched.foundation.util.collector import settle_collector
from kubesched.scheduler.config.types import BY_NAME, RANDOM

SAMPLE = Path(__file__).parent / "sample"


class Seeds(click.ParamType):
    """Seeds as `42`, `42-51`, or several of these with commas."""

    name = "seeds"

    def convert(self, value: Any, param: Any, ctx: Any) -> list[int]:
        seeds: list[int] = []
        try:
            for part in str(value).split(","):
                first, _, last = part.partition("-")
                seeds.extend(range(int(first), int(last or first) + 1))
        except ValueError:
            self.fail(f"{value!r} is not like 42, 42-51 or 1,3,5", param, ctx)
        return seeds or self.fail(f"{value!r} holds no seed", param, ctx)


@click.command(help=__doc__)
@click.option("--trace", type=click.Path(path_type=Path), default=SAMPLE, help="Folder of CSVs.")
@click.option("--workload", default="default", show_default=True, help="Which list of pods.")
@click.option(
    "--policy",
    "policies",
    type=click.Choice(list(POLICIES)),
    multiple=True,
    help="One or more; all of them if none is given.",
)
@click.option("--seeds", type=Seeds(), default="42", show_default=True, help="Such as 42-51.")
@click.option(
    "--tie-break",
    type=click.Choice([BY_NAME, RANDOM]),
    default=BY_NAME,
    show_default=True,
    help="Which of equally good nodes; the published results need the first.",
)
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table")
def main(
    trace: Path,
    workload: str,
    policies: tuple[str, ...],
    seeds: list[int],
    tie_break: str,
    output: str,
) -> None:
    try:
        read = Trace.read(trace, workload)
    except TraceError as exc:
        sys.exit(f"error: {exc}")
    settle_collector()
    if output == "table":
        click.echo(f"{'workload':<12} {'policy':<14} seed  GPU allocated at 100 %, 130 %  seconds")
    for policy in policies or POLICIES:
        for seed in seeds:
            started = time.perf_counter()
            outcome = run(read, policy, seed, tie_break=tie_break)
            seconds = round(time.perf_counter() - started, 2)
            curves = outcome.curves
            if output == "table":
                at_100, at_130 = (curves.gpu_allocation[cell] or 0.0 for cell in (100, 130))
                click.echo(
                    f"{workload:<12} {policy:<14} {seed:>4}  {at_100:>21.2f}, {at_130:>5.2f}"
                    f"  {seconds:>7.1f}"
                )
                continue
            line = {
                "workload": workload,
                "policy": policy,
                "seed": seed,
                "seconds": seconds,
                "failed": outcome.placed.count(None),
                **msgspec.structs.asdict(curves),
            }
            click.echo(msgspec.json.encode(line).decode())


if __name__ == "__main__":
    main()
