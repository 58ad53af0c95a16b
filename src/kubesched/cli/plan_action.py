"""Action of `kubesched plan`: read a cluster, plan, and show the plan."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import yaml

from kubesched.api.labels import NOTHING, Selector
from kubesched.cli.cluster_sources import SourceOptions
from kubesched.errors import SelectorError
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.ints import whole_number
from kubesched.foundation.util.yaml_reader import load_yaml
from kubesched.plan import (
    BlockedPod,
    Consolidation,
    Drain,
    PlanningPolicy,
    Sizing,
    Upgrade,
    consolidate,
    plan_drain,
    plan_upgrade,
)
from kubesched.plan.plan_page import plan_page
from kubesched.sim.values import ScenarioError, parse_duration_ns

__all__ = [
    "ConsolidateOptions",
    "counted",
    "duration_seconds",
    "read_prices",
    "run_consolidate",
    "run_drain",
    "show_plan",
    "show_progress",
]

_SHOWN = 20


class ConsolidateOptions(NamedTuple):
    """The options of `kubesched plan consolidate`, as the user has set them."""

    duration: str
    spare: str
    survive: str
    pin: str
    keep: str
    local_storage: bool
    price_label: str
    prices: Path | None
    wave_pods: int
    seed: int
    page: Path | None = None


def run_consolidate(source: SourceOptions, options: ConsolidateOptions, output: str) -> None:
    policy = PlanningPolicy(
        pinned_pods=_selector(options.pin, "--pin"),
        kept_nodes=_selector(options.keep, "--keep"),
        moves_local_storage=options.local_storage,
        spare_percent=_percent(options.spare),
        survive=options.survive,
        price_label=options.price_label,
        prices={} if options.prices is None else read_prices(options.prices),
    )
    seconds = duration_seconds(options.duration, "--time")
    cluster = asyncio.run(source.snapshot())
    answer = consolidate(
        cluster.snapshot,
        policy=policy,
        seconds=seconds,
        wave_pods=options.wave_pods,
        seed=options.seed,
        report=show_progress,
    )
    lines = _lines(answer)
    if options.page is not None:
        head = lines[: lines.index("")] if "" in lines else lines
        options.page.write_text(plan_page(answer, cluster.snapshot, head), encoding="utf-8")
    show_plan(answer, lines, output)


def run_drain(
    source: SourceOptions,
    nodes: tuple[str, ...],
    max_pending: str,
    local_storage: bool,
    wave_pods: int,
    output: str,
) -> None:
    most_pending_s = duration_seconds(max_pending, "--max-pending")
    cluster = asyncio.run(source.snapshot())
    answer = plan_drain(
        cluster.snapshot,
        nodes,
        policy=PlanningPolicy(moves_local_storage=local_storage),
        most_pending_s=most_pending_s,
        wave_pods=wave_pods,
        report=show_progress,
    )
    show_plan(answer, _drain_lines(answer, nodes), output)
    if not answer.verified:
        sys.exit(1)


def run_upgrade(
    source: SourceOptions,
    pool: str,
    surge: int,
    max_pending: str,
    local_storage: bool,
    wave_pods: int,
    output: str,
) -> None:
    selector = _selector(pool, "--pool")
    most_pending_s = duration_seconds(max_pending, "--max-pending")
    cluster = asyncio.run(source.snapshot())
    answer = plan_upgrade(
        cluster.snapshot,
        selector,
        surge=surge,
        policy=PlanningPolicy(moves_local_storage=local_storage),
        most_pending_s=most_pending_s,
        wave_pods=wave_pods,
        report=show_progress,
    )
    show_plan(answer, _upgrade_lines(answer), output)
    if not answer.verified:
        sys.exit(1)


def show_plan(
    answer: Consolidation | Drain | Sizing | Upgrade, lines: list[str], output: str
) -> None:
    """Print the plan as JSON, or its lines, in place of the progress."""
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    else:
        click.echo("\n".join(lines))


def show_progress(text: str) -> None:
    """Show the last line of progress on a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{text}", nl=False, err=True)


def _selector(text: str, option: str) -> Selector:
    if not text:
        return NOTHING
    try:
        return Selector.parse(text)
    except SelectorError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _percent(text: str) -> int:
    number = whole_number(text.removesuffix("%"))
    if number is None or number >= 100:
        raise click.BadParameter(f"{text!r} is not 0% to 99%", param_hint="--spare")
    return number


def duration_seconds(text: str, option: str) -> float:
    try:
        return parse_duration_ns(text) / SECOND
    except ScenarioError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def read_prices(path: Path) -> dict[str, float]:
    try:
        return msgspec.convert(load_yaml(path.read_bytes()), dict[str, float])
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = 1 if mark is None else mark.line + 1
        raise click.BadParameter(f"{path}:{line}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        text = " ".join(str(error).split())
        raise click.BadParameter(f"{path}: not a map of names to prices: {text}") from error


def _lines(answer: Consolidation) -> list[str]:
    freed = answer.nodes - answer.planned_nodes
    lines = [
        f"{answer.nodes} nodes now, {answer.planned_nodes} in the plan, "
        f"at least {answer.lower_bound} are needed"
        + (": the plan is optimal." if answer.planned_nodes == answer.lower_bound else ".")
    ]
    if answer.cost is not None:
        lines.append(
            f"They cost {answer.cost:g} now, {answer.planned_cost:g} in the plan, "
            f"at least {answer.lower_bound_cost:g}."
        )
    if answer.losses:
        lines.append("No plan leaves room for the pods of a lost part, so there are no moves.")
        lines += ["", "After a loss", *(f"  {each}" for each in answer.losses[:_SHOWN])]
        lines += _more(len(answer.losses) - _SHOWN)
    elif not answer.verified:
        lines.append("No plan survived its rehearsal by the scheduler, so there are no moves.")
    elif answer.moves:
        lines.append(
            f"{counted(len(answer.moves), 'move')} in {counted(len(answer.waves), 'wave')} "
            f"{'empty' if len(answer.moves) > 1 else 'empties'} {counted(freed, 'node')}. The "
            "scheduler has rehearsed it: every pod was placed, no budget was violated."
        )
    else:
        lines.append(f"No pod has to move; {counted(freed, 'node')} can be removed.")
    lines += _wave_lines(answer)
    if answer.emptied:
        lines += ["", "Nodes without pods at the end", *_wrapped(answer.emptied)]
    if answer.problems:
        lines += ["", "Problems", *(f"  {each}" for each in answer.problems[:_SHOWN])]
        lines += _more(len(answer.problems) - _SHOWN)
    if answer.kept_nodes:
        kept = [f"  {name}: {why}" for name, why in answer.kept_nodes.items()]
        lines += ["", "Nodes that cannot be emptied", *kept[:_SHOWN], *_more(len(kept) - _SHOWN)]
    return lines


def _upgrade_lines(answer: Upgrade) -> list[str]:
    nodes, rounds = counted(answer.nodes, "node"), counted(len(answer.rounds), "round")
    if answer.verified:
        lines = [
            f"{nodes} can be replaced in {rounds}. The scheduler has rehearsed it: no budget was "
            "violated, and no pod had no node for more than "
            f"{answer.longest_pending_seconds:.1f} s.",
        ]
    else:
        lines = [f"{answer.upgraded} of {nodes} can be replaced; round {len(answer.rounds)} fails."]
    lines += _blocked_lines(answer.blocked)
    if answer.problems:
        lines += ["", "Problems", *(f"  {each}" for each in answer.problems[:_SHOWN])]
    for each in answer.rounds[:_SHOWN]:
        lines += [
            "",
            f"Round {each.round}: add {counted(len(each.add), 'node')}, then remove "
            f"{', '.join(each.nodes) or 'none'}",
        ]
        moves = [f"  {move.pod}: {move.source} -> {move.target}" for move in each.moves]
        lines += moves[:_SHOWN] + _more(len(moves) - _SHOWN)
    return lines + _more(len(answer.rounds) - _SHOWN)


def _blocked_lines(blocked: tuple[BlockedPod, ...]) -> list[str]:
    if not blocked:
        return []
    lines = ["", "In the way"]
    for each in blocked[:_SHOWN]:
        lines.append(f"  {each.pod} on {each.node}: {each.reason}")
        lines += [f"    {each.help}"] if each.help else []
    return lines + _more(len(blocked) - _SHOWN)


def _drain_lines(answer: Drain, wanted: tuple[str, ...]) -> list[str]:
    if answer.verified:
        lines = [
            f"{counted(len(wanted), 'node')} can be drained, in this order: "
            f"{', '.join(answer.nodes)}.",
            f"{counted(len(answer.moves), 'move')} in {counted(len(answer.waves), 'wave')}. The "
            "scheduler has rehearsed it: no budget was violated, and no pod had no node for more "
            f"than {answer.longest_pending_seconds:.1f} s.",
        ]
    else:
        lines = [f"{len(answer.nodes)} of {counted(len(wanted), 'node')} can be drained."]
    lines += _blocked_lines(answer.blocked)
    if answer.problems:
        lines += ["", "Problems", *(f"  {each}" for each in answer.problems[:_SHOWN])]
    return lines + _wave_lines(answer)


def _wave_lines(answer: Consolidation | Drain) -> list[str]:
    lines: list[str] = []
    for wave in answer.waves[:_SHOWN]:
        moves = [move for move in answer.moves if move.wave == wave.wave]
        lines += ["", f"Wave {wave.wave}"]
        lines += [f"  {move.pod}: {move.source} -> {move.target}" for move in moves[:_SHOWN]]
        lines += _more(len(moves) - _SHOWN)
    if len(answer.waves) > _SHOWN:
        lines += ["", f"… and {len(answer.waves) - _SHOWN} more waves (-o json shows all)"]
    return lines


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _more(count: int) -> list[str]:
    return [f"  … and {count} more (-o json shows all)"] if count > 0 else []


def _wrapped(names: tuple[str, ...]) -> list[str]:
    return [f"  {', '.join(names[start : start + 6])}" for start in range(0, len(names), 6)]
