"""Action of `kubesched plan size`: read a workload and a catalog, size, and show the result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from kubesched.api import Node
from kubesched.cli.cluster_address import ClusterAddress
from kubesched.cli.cluster_sources import SourceOptions
from kubesched.cli.plan_action import (
    counted,
    duration_seconds,
    read_prices,
    show_plan,
    show_progress,
)
from kubesched.explain import Snapshot
from kubesched.explain.clusters.sources import load_files
from kubesched.foundation.util.standard_input import read_standard_text
from kubesched.plan import PlanningPolicy, Sizing, size_cluster
from kubesched.plan.plan_results import OneTypeSizing

__all__ = ["SizeOptions", "run_size"]

_SHOWN = 20


class SizeOptions(NamedTuple):
    """The options of `kubesched plan size`, as the user has set them."""

    files: tuple[str, ...]
    catalog: tuple[str, ...]
    price_label: str
    prices: Path | None
    config_file: Path | None
    plugins: tuple[str, ...]
    duration: str
    seed: int


def run_size(options: SizeOptions, output: str) -> None:
    source = SourceOptions((), None, ClusterAddress(), options.config_file, options.plugins)
    has_prices = bool(options.price_label or options.prices)
    policy = PlanningPolicy(
        price_label=options.price_label,
        prices={} if options.prices is None else read_prices(options.prices),
    )
    seconds = duration_seconds(options.duration, "--time")
    base = Snapshot((), configuration=source.configuration(), plugins=source.registry())
    stdin = read_standard_text() if "-" in (*options.files, *options.catalog) else ""
    workload = load_files(options.files, stdin).objects
    catalog = load_files(options.catalog, stdin).objects
    answer = size_cluster(
        workload,
        [each for each in catalog if isinstance(each, Node)],
        base=base,
        policy=policy,
        seconds=seconds,
        seed=options.seed,
        report=show_progress,
    )
    show_plan(answer, _lines(answer, has_prices=has_prices), output)
    if not answer.verified:
        sys.exit(1)


def _lines(answer: Sizing, *, has_prices: bool) -> list[str]:
    if answer.unplaceable:
        pods = [f"  {name}: {why}" for name, why in answer.unplaceable.items()]
        fit = "fits" if len(pods) == 1 else "fit"
        head = f"{counted(len(pods), 'pod')} of {answer.pods} {fit} no node of the catalog."
        return [head, "", *pods[:_SHOWN], *_more(len(pods) - _SHOWN)]
    is_optimal = answer.cost == answer.lower_bound
    lines = [
        f"{counted(answer.nodes, 'node')} for {counted(answer.pods, 'pod')}"
        + (f", for {answer.cost:g}" if has_prices else "")
        + f"; at least {answer.lower_bound:g}"
        + (" is needed: this is optimal." if is_optimal else " is needed.")
    ]
    if answer.packed_nodes < answer.nodes:
        lines.append(
            f"The pods fit on {counted(answer.packed_nodes, 'node')}"
            + (f" for {answer.packed_cost:g}" if has_prices else "")
            + ", but the scheduler with its scores does not place them so tightly."
        )
    if answer.verified:
        lines.append("The scheduler has placed all pods on these nodes.")
    lines += ["", "Nodes"]
    for each in answer.types:
        price = f"  ({each.price:g} each)" if has_prices else ""
        lines.append(f"  {each.nodes:>5} {each.name}{price}")
    lines += ["", "What if only this type"]
    lines += [_of_one_type(one, has_prices=has_prices) for one in answer.only]
    if answer.problems:
        lines += ["", "Problems", *(f"  {each}" for each in answer.problems[:_SHOWN])]
    return lines


def _of_one_type(one: OneTypeSizing, *, has_prices: bool) -> str:
    if one.impossible:
        return f"  {one.name}: {one.impossible}"
    cost = f" for {one.cost:g}" if has_prices else ""
    note = "" if one.verified else "; the scheduler leaves pods without a node"
    bound = f"at least {one.lower_bound:g}"
    return f"  {one.name}: {counted(one.nodes, 'node')}{cost} ({bound}){note}"


def _more(count: int) -> list[str]:
    return [f"  … and {count} more (-o json shows all)"] if count > 0 else []
