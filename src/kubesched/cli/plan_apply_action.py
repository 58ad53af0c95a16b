"""Action of `kubesched plan apply`: carry out a plan on a copy, or on the cluster."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
import msgspec

from kubesched.cli.cluster_address import live_api
from kubesched.cli.cluster_sources import SourceOptions
from kubesched.foundation.util.clock import Clock, RealClock
from kubesched.plan.applying.plan_application import apply_plan, rehearse_application
from kubesched.plan.applying.plan_applier import AppliedPlan
from kubesched.plan.applying.plan_document import PlanDocument, read_plan
from kubesched.plan.applying.plan_journal import PlanJournal
from kubesched.sim.values import ScenarioError, parse_duration_ns

__all__ = ["run_apply"]


def run_apply(
    path: Path,
    source: SourceOptions,
    journal: Path | None,
    wave_timeout: str,
    output: str,
    *,
    dry_run: bool,
) -> None:
    try:
        longest_ns = parse_duration_ns(wave_timeout)
    except ScenarioError as error:
        raise click.BadParameter(str(error), param_hint="--wave-timeout") from error
    plan = read_plan(path.read_bytes(), str(path))
    progress = journal or path.with_name(f"{path.name}.journal")
    if dry_run:
        done = _rehearse(plan, source, progress, longest_ns, is_json=output == "json")
    else:
        if source.files or source.capture or source.recorded:
            raise click.UsageError("--no-dry-run changes a live cluster, not files or captures")
        source.address.check_is_named()
        work = _apply(plan, source, progress, longest_ns, is_json=output == "json")
        done = asyncio.run(work)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(done), indent=2))
    else:
        click.echo("\n".join(_summary(done, progress)))
    if not done.is_complete:
        sys.exit(1)


def _rehearse(
    plan: PlanDocument, source: SourceOptions, progress: Path, longest_ns: int, *, is_json: bool
) -> AppliedPlan:
    def read_journal(clock: Clock) -> PlanJournal:
        return PlanJournal.read(progress, plan.digest, clock, writes=False)

    snapshot = asyncio.run(source.snapshot()).snapshot
    return rehearse_application(
        plan,
        snapshot,
        read_journal,
        longest_wave_ns=longest_ns,
        report=lambda text: click.echo(f"would {text}" if _is_order(text) else text, err=is_json),
    )


async def _apply(
    plan: PlanDocument, source: SourceOptions, progress: Path, longest_ns: int, *, is_json: bool
) -> AppliedPlan:
    clock = RealClock()
    journal = PlanJournal.read(progress, plan.digest, clock, writes=True)
    async with live_api(source.address, "plan apply") as api:
        return await apply_plan(
            plan,
            api,
            journal,
            clock,
            longest_wave_ns=longest_ns,
            report=lambda text: click.echo(text, err=is_json),
        )


def _is_order(text: str) -> bool:
    return text.startswith(("cordon ", "uncordon ", "evict "))


def _summary(done: AppliedPlan, progress: Path) -> list[str]:
    where = " on a copy of the cluster; nothing was changed" if done.dry_run else ""
    lines = [
        f"{done.waves_done} of {done.waves} waves and {done.moves_done} of {done.moves} moves are "
        f"done{where}."
    ]
    if done.problems:
        lines += ["", "The cluster differs from the plan", *(f"  {each}" for each in done.problems)]
        lines += ["  make a new plan"]
    elif done.stopped:
        lines.append(f"Stopped: {done.stopped}.")
        if not done.dry_run:
            lines.append(f"The same command continues from {progress}; or make a new plan.")
    elif done.dry_run:
        lines.append("--no-dry-run carries it out.")
    if done.emptied and not done.dry_run:
        lines += ["", "Nodes without pods, cordoned", f"  {', '.join(done.emptied)}"]
    return lines
