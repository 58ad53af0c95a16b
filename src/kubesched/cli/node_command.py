"""`kubesched node`: options and help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kubesched.api import Taint
from kubesched.api.quantity import parse_quantity
from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from kubesched.cli.shared_options import cluster_options, output_option
from kubesched.errors import QuantityError
from kubesched.foundation.util.ints import whole_number

if TYPE_CHECKING:
    from kubesched.cli.cluster_address import ClusterAddress

__all__ = ["node"]

_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)


@click.group(
    short_help="Add, remove, stop or start nodes of a running cluster.",
    epilog="Example: kubesched node add --count 100 --cpu 8 --memory 32Gi --zones a,b,c",
)
def node() -> None:
    """Add simulated nodes to a cluster such as that of `kubesched up`, or remove nodes.

    The cluster is that of --name, --kubeconfig or $KUBECONFIG.
    """


def _pair(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> dict[str, str]:
    pairs = dict(value.partition("=")[::2] for value in values)
    for key in pairs:
        if not key or not all("=" in value for value in values):
            raise click.BadParameter("expected NAME=VALUE")
    return pairs


def _quantity(_context: click.Context, _option: click.Parameter, value: str) -> str:
    try:
        parse_quantity(value)
    except QuantityError as exc:
        raise click.BadParameter(f"{value!r}: {exc}") from exc
    return value


def _taints(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> tuple[Taint, ...]:
    taints = []
    for text in values:
        pair, colon, effect = text.rpartition(":")
        key, _, value = pair.partition("=")
        if not colon or not key or effect not in _EFFECTS:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE:EFFECT")
        taints.append(Taint(key=key, value=value, effect=effect))
    return tuple(taints)


def _devices(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> tuple[tuple[str, int], ...]:
    devices = []
    for text in values:
        driver, colon, number = text.rpartition(":")
        count = whole_number(number)
        if not colon or not driver or count is None:
            raise click.BadParameter(f"{text!r} is not DRIVER:COUNT")
        devices.append((driver, count))
    return tuple(devices)


_OUTPUT = output_option(text="One name per line, or a JSON list.", forms=("name", "json"))


@node.command(epilog="Example: kubesched node add --count 100 --cpu 8 --memory 32Gi")
@click.option("--count", default=1, show_default=True, type=click.IntRange(min=1))
@click.option("--prefix", default="node", show_default=True, help="Names are PREFIX-NUMBER.")
@click.option("--cpu", default="4", show_default=True, callback=_quantity)
@click.option("--memory", default="16Gi", show_default=True, callback=_quantity)
@click.option("--pods", default=110, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--resource", "extended", multiple=True, metavar="NAME=QUANTITY", callback=_pair,
    help="Another resource, such as example.com/gpu=4; may be repeated.",
)  # fmt: skip
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", callback=_pair)
@click.option(
    "--device", "devices", multiple=True, metavar="DRIVER:COUNT", callback=_devices,
    help="Devices to publish as ResourceSlices, such as gpu.example.com:8; may be repeated. A "
    "DeviceClass with the driver's name is created too.",
)  # fmt: skip
@click.option(
    "--partitions", default=0, type=click.IntRange(0, 32), metavar="NUMBER",
    help="The number of partitions of each device.",
)  # fmt: skip
@click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME=VALUE", callback=_pair,
    help="An attribute of all devices, such as model=a100; may be repeated.",
)  # fmt: skip
@click.option(
    "--capacity", "capacity", multiple=True, metavar="NAME=QUANTITY", callback=_pair,
    help="A capacity of each device, such as memory=80Gi; may be repeated.",
)  # fmt: skip
@click.option("--zones", default="", metavar="A,B,...", help="Zones, assigned in turn.")
@click.option("--taint", "taints", multiple=True, metavar="KEY=VALUE:EFFECT", callback=_taints)
@cluster_options
@_OUTPUT
def add(
    count: int,
    prefix: str,
    cpu: str,
    memory: str,
    pods: int,
    extended: dict[str, str],
    labels: dict[str, str],
    devices: tuple[tuple[str, int], ...],
    partitions: int,
    attributes: dict[str, str],
    capacity: dict[str, str],
    zones: str,
    taints: tuple[Taint, ...],
    address: ClusterAddress,
    output: str,
) -> None:
    """Add nodes, and print their names."""
    from kubesched.cli.node_action import run_add

    run_add(
        count,
        prefix,
        cpu,
        memory,
        pods,
        extended,
        labels,
        devices,
        partitions,
        attributes,
        capacity,
        zones,
        taints,
        address,
        output,
    )


@node.command(epilog="Example: kubesched node remove node-3 node-4")
@click.argument("names", nargs=-1, required=True)
@cluster_options
@_OUTPUT
def remove(names: tuple[str, ...], address: ClusterAddress, output: str) -> None:
    """Remove nodes by name, and print the names."""
    from kubesched.cli.node_action import run_remove

    run_remove(names, address, output)


_SELECTOR = click.option(
    "-l",
    "--selector",
    default="",
    metavar="LABELS",
    help="Also all nodes with these labels, such as topology.kubernetes.io/zone=a.",
)


@node.command(epilog="Example: kubesched node stop -l topology.kubernetes.io/zone=a")
@click.argument("names", nargs=-1)
@_SELECTOR
@cluster_options
@_OUTPUT
def stop(names: tuple[str, ...], selector: str, address: ClusterAddress, output: str) -> None:
    """Make nodes fail: their kubelets stop sending heartbeats. Prints the names.

    After 50 s a node counts as unreachable, gets the taints for it, and its pods go when they no
    longer tolerate them.
    """
    from kubesched.cli.node_action import run_stop

    run_stop(names, selector, address, output)


@node.command(epilog="Example: kubesched node start node-3 node-4")
@click.argument("names", nargs=-1)
@_SELECTOR
@cluster_options
@_OUTPUT
def start(names: tuple[str, ...], selector: str, address: ClusterAddress, output: str) -> None:
    """Restart stopped nodes, and print their names."""
    from kubesched.cli.node_action import run_start

    run_start(names, selector, address, output)
