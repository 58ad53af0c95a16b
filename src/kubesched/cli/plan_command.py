"""`kubesched plan`: options and help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubesched.cli.shared_options import configuration_options, output_option, source_options

if TYPE_CHECKING:
    from kubesched.cli.cluster_sources import SourceOptions

__all__ = ["plan"]


_with_time = click.option(
    "--time",
    "duration",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="How long to search for a better plan. It ends earlier if the plan is proved optimal.",
)
_with_output = output_option("plan")
_with_wave_pods = click.option(
    "--wave-pods",
    type=click.IntRange(1, 10_000),
    default=200,
    show_default=True,
    metavar="N",
    help="The most pods that one wave evicts.",
)

_with_max_pending = click.option(
    "--max-pending",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="How long a replacement may have no node.",
)


def _with_prices(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what nodes cost."""
    by_label = click.option(
        "--price-label",
        default="",
        metavar="KEY",
        help="Plan the cheapest nodes: the node label that has the price.",
    )
    by_file = click.option(
        "--prices",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Plan the cheapest nodes: a YAML file with prices by the name of a node or of an "
        "instance type.",
    )
    return by_label(by_file(command))


@click.group(
    short_help="Plan for the fewest nodes, with a proved bound and rehearsed moves.",
    epilog="Example: kubesched plan consolidate --capture monday.capture",
)
def plan() -> None:
    """Plan changes to the nodes of a cluster, with the scheduler's own rules.

    Every plan is played by the scheduler in virtual time before it is shown. Only `plan apply
    --no-dry-run` writes to a cluster. The commands that make plans need the extra `plan`.
    """


@plan.command(epilog="Example: kubesched plan consolidate -f dump.yaml --spare 10%")
@source_options
@_with_time
@click.option(
    "--spare",
    default="0%",
    show_default=True,
    metavar="PERCENT",
    help="The share of the cpu and memory of the planned nodes that must stay free.",
)
@click.option(
    "--survive",
    type=click.Choice(["node", "zone"]),
    help="If any node, or any zone, of the plan is lost, the others must have room for its pods.",
)
@click.option("--pin", default="", metavar="SELECTOR", help="Pods that are not moved, by labels.")
@click.option("--keep", default="", metavar="SELECTOR", help="Nodes that stay, by labels.")
@click.option(
    "--local-storage", is_flag=True, help="Also move pods with an emptyDir or a hostPath volume."
)
@_with_prices
@_with_wave_pods
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the search.")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the plan as a page: the nodes before and after, and the waves.",
)
@_with_output
def consolidate(
    source: SourceOptions,
    duration: str,
    spare: str,
    survive: str | None,
    pin: str,
    keep: str,
    local_storage: bool,
    price_label: str,
    prices: Path | None,
    wave_pods: int,
    seed: int,
    page: Path | None,
    output: str,
) -> None:
    """Find the fewest nodes that hold what runs now, and the moves that get there.

    Three numbers come first: the nodes now, the nodes in the plan, and a proved lower bound. Then
    follow the moves, in waves that budgets and the room at that moment allow. Pods without a
    controller, with local storage, with claims to devices, and pods that annotations exclude, stay
    where they are.
    """
    from kubesched.cli.plan_action import ConsolidateOptions, run_consolidate

    limits = (spare, survive or "", pin, keep, local_storage)
    search = (price_label, prices, wave_pods, seed)
    options = ConsolidateOptions(duration, *limits, *search, page)
    run_consolidate(source, options, output)


@plan.command(epilog="Example: kubesched plan drain node-3 node-4 --capture monday.capture")
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@source_options
@_with_max_pending
@click.option(
    "--local-storage", is_flag=True, help="Also move pods with an emptyDir or a hostPath volume."
)
@_with_wave_pods
@_with_output
def drain(
    nodes: tuple[str, ...],
    source: SourceOptions,
    max_pending: str,
    local_storage: bool,
    wave_pods: int,
    output: str,
) -> None:
    """Find an order of evictions that drains nodes while budgets hold and no pod waits long.

    Pods on other nodes move if that makes room. If some pod stands in the way, it is named with
    what would help, and the exit code is 1.
    """
    from kubesched.cli.plan_action import run_drain

    run_drain(source, nodes, max_pending, local_storage, wave_pods, output)


@plan.command(epilog="Example: kubesched plan upgrade --pool pool=workers --surge 2")
@source_options
@click.option("--pool", required=True, metavar="SELECTOR", help="The nodes to replace, by labels.")
@click.option(
    "--surge",
    type=click.IntRange(1, 1_000),
    default=1,
    show_default=True,
    metavar="N",
    help="How many new nodes each round adds, and how many old ones it empties.",
)
@_with_max_pending
@click.option(
    "--local-storage", is_flag=True, help="Also move pods with an emptyDir or a hostPath volume."
)
@_with_wave_pods
@_with_output
def upgrade(
    source: SourceOptions,
    pool: str,
    surge: int,
    max_pending: str,
    local_storage: bool,
    wave_pods: int,
    output: str,
) -> None:
    """Find rounds in which the nodes of a pool are replaced while budgets hold.

    Each round adds new nodes that are equal to old ones, and empties these. If some pod stands in
    the way, it is named with what would help, and the exit code is 1. Only a plan: no command adds
    or removes nodes.
    """
    from kubesched.cli.plan_action import run_upgrade

    run_upgrade(source, pool, surge, max_pending, local_storage, wave_pods, output)


@plan.command(epilog="Example: kubesched plan apply plan.json --no-dry-run")
@click.argument(
    "plan_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PLAN",
)
@source_options
@click.option(
    "--dry-run/--no-dry-run",
    default=True,
    show_default=True,
    help="Play the plan on a copy of the cluster, in virtual time; or carry it out.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The progress of the plan, from which it is resumed; default: PLAN.journal.",
)
@click.option(
    "--wave-timeout",
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="How long a wave may take until all its replacements are ready.",
)
@output_option(text="A line per step; or the result as JSON, with the lines on standard error.")
def apply(
    plan_file: Path,
    source: SourceOptions,
    dry_run: bool,
    journal: Path | None,
    wave_timeout: str,
    output: str,
) -> None:
    """Carry out a plan that `-o json` has written, wave by wave.

    Cordons the nodes that the plan empties, evicts pods as kubectl drain does, and waits until the
    replacements are ready. It stops when the cluster changes in a way that the plan does not have;
    the nodes that still have pods are then uncordoned, and the exit code is 1. The same command
    goes on where it stopped. It makes no move that is not in the plan, and never deletes a node.
    """
    from kubesched.cli.plan_apply_action import run_apply

    run_apply(plan_file, source, journal, wave_timeout, output, dry_run=dry_run)


@plan.command(epilog="Example: kubesched plan size -f workload.yaml --catalog nodes.yaml")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="The workload: Deployments, StatefulSets, Jobs, DaemonSets, pods and what they refer to; "
    "may be repeated; - reads standard input.",
)
@click.option(
    "--catalog",
    required=True,
    multiple=True,
    metavar="FILE",
    help="The node types: nodes, YAML or JSON, each of which may be used any number of times; may "
    "be repeated.",
)
@_with_prices
@configuration_options
@_with_time
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the search.")
@_with_output
def size(
    files: tuple[str, ...],
    catalog: tuple[str, ...],
    price_label: str,
    prices: Path | None,
    config_file: Path | None,
    plugins: tuple[str, ...],
    duration: str,
    seed: int,
    output: str,
) -> None:
    """Find which node types, and how many of each, hold a workload for the lowest price.

    The scheduler places the workload on these nodes in virtual time, and nodes are added until all
    pods have one. The answer has a proved lower bound, and for each type the answer to "what if
    only this". Without prices each node costs 1. The exit code is 1 if a pod fits no type.
    """
    from kubesched.cli.plan_size_action import SizeOptions, run_size

    options = SizeOptions(files, catalog, price_label, prices, config_file, plugins, duration, seed)
    run_size(options, output)
