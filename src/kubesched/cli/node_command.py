"""`kubesched node`: add nodes to a cluster without machines, stop, start and remove them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import click
import msgspec

from kubesched.api import Node, NodeSpec, NodeStatus, ObjectMeta, Taint
from kubesched.api.access import ApiAccess
from kubesched.api.base import ResourceList
from kubesched.api.quantity import parse_quantity
from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from kubesched.cli.cluster_address import ClusterAddress, cluster_options, live_api
from kubesched.cluster.controllers.device_driver import DEVICES, AnnotatedDevices
from kubesched.cluster.nodes.pod_behavior import STOPPED
from kubesched.errors import QuantityError
from kubesched.foundation.util.ints import whole_number

__all__ = ["node", "nodes_to_add"]

_PLATFORM = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
_HOSTNAME, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)


@click.group(
    short_help="Add, remove, stop or start nodes of a running cluster.",
    epilog="Example: kubesched node add --count 100 --cpu 8 --memory 32Gi --zones a,b,c",
)
def node() -> None:
    """Add nodes without machines to a cluster such as that of `kubesched up`, or remove nodes.

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


Work = Callable[[ApiAccess, Callable[[str], None]], Awaitable[None]]

_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["name", "json"]), default="name", show_default=True,
    help="Names line by line, or a list of them in JSON.",
)  # fmt: skip


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
    "DeviceClass of the driver's name is made too.",
)  # fmt: skip
@click.option(
    "--partitions", default=0, type=click.IntRange(0, 32), metavar="NUMBER",
    help="Each device can also be had in so many parts.",
)  # fmt: skip
@click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME=VALUE", callback=_pair,
    help="Of all devices, such as model=a100; may be repeated.",
)  # fmt: skip
@click.option(
    "--capacity", "capacity", multiple=True, metavar="NAME=QUANTITY", callback=_pair,
    help="Of each device, such as memory=80Gi; may be repeated.",
)  # fmt: skip
@click.option("--zones", default="", metavar="A,B,...", help="Zones, taken in turn.")
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
    groups = [
        AnnotatedDevices(driver, number, attributes, capacity, partitions)
        for driver, number in devices
    ]
    annotations = {DEVICES: msgspec.json.encode(groups).decode()} if groups else {}
    resources: ResourceList = {"cpu": cpu, "memory": memory, "pods": str(pods), **extended}
    named_zones = [zone for zone in zones.split(",") if zone]

    async def work(api: ApiAccess, tell: Callable[[str], None]) -> None:
        there = {each.metadata.name for each in (await api.list(Node)).items}
        for each in nodes_to_add(count, prefix, resources, labels, named_zones, taints, there):
            metadata = msgspec.structs.replace(each.metadata, annotations=annotations)
            await api.create(msgspec.structs.replace(each, metadata=metadata))
            tell(each.metadata.name)

    asyncio.run(_with_api(address, output, work))


@node.command(epilog="Example: kubesched node remove node-3 node-4")
@click.argument("names", nargs=-1, required=True)
@cluster_options
@_OUTPUT
def remove(names: tuple[str, ...], address: ClusterAddress, output: str) -> None:
    """Remove nodes by their names, and print these."""

    async def work(api: ApiAccess, tell: Callable[[str], None]) -> None:
        for name in names:
            await api.delete(Node, name)
            tell(name)

    asyncio.run(_with_api(address, output, work))


_SELECTOR = click.option(
    "-l", "--selector", default="", metavar="LABELS",
    help="Also all nodes with these labels, such as topology.kubernetes.io/zone=a.",
)  # fmt: skip


@node.command(epilog="Example: kubesched node stop -l topology.kubernetes.io/zone=a")
@click.argument("names", nargs=-1)
@_SELECTOR
@cluster_options
@_OUTPUT
def stop(names: tuple[str, ...], selector: str, address: ClusterAddress, output: str) -> None:
    """Let nodes fail: their kubelets say nothing more and do nothing more. Prints their names.

    After 50 s a node counts as unreachable, gets the taints for it, and its pods go when they no
    longer tolerate them.
    """
    asyncio.run(_with_api(address, output, _marking(names, selector, "true")))


@node.command(epilog="Example: kubesched node start node-3 node-4")
@click.argument("names", nargs=-1)
@_SELECTOR
@cluster_options
@_OUTPUT
def start(names: tuple[str, ...], selector: str, address: ClusterAddress, output: str) -> None:
    """Let nodes that were stopped go on, and print their names."""
    asyncio.run(_with_api(address, output, _marking(names, selector, None)))


def _marking(names: Sequence[str], selector: str, stopped: str | None) -> Work:
    if not names and not selector:
        raise click.UsageError("name some nodes, or select them with --selector")

    async def work(api: ApiAccess, tell: Callable[[str], None]) -> None:
        chosen = list(names)
        if selector:
            selected = await api.list(Node, label_selector=selector)
            chosen += [each.metadata.name for each in selected.items]
        for name in dict.fromkeys(chosen):
            patch = {"metadata": {"annotations": {STOPPED: stopped}}}
            await api.patch(Node, name, None, patch, patch_type="merge")
            tell(name)

    return work


def nodes_to_add(
    count: int,
    prefix: str,
    resources: ResourceList,
    labels: dict[str, str],
    zones: Sequence[str],
    taints: tuple[Taint, ...],
    there: Iterable[str],
) -> list[Node]:
    """New nodes, with the first numbers that no node has."""
    taken = set(there)
    made: list[Node] = []
    number = 0
    while len(made) < count:
        name = f"{prefix}-{number}"
        if name not in taken:
            marks = {_HOSTNAME: name, **_PLATFORM, **labels}
            if zones:
                marks[_ZONE] = zones[number % len(zones)]
            made.append(
                Node(
                    metadata=ObjectMeta(name=name, labels=marks),
                    spec=NodeSpec(taints=taints),
                    status=NodeStatus(capacity=resources, allocatable=resources),
                )
            )
        number += 1
    return made


async def _with_api(address: ClusterAddress, output: str, work: Work) -> None:
    """Have something done to nodes, each of which is named when it is done, or all in the end."""
    names: list[str] = []
    is_json = output == "json"
    async with live_api(address, "node") as api:
        await work(api, names.append if is_json else click.echo)
    if is_json:
        click.echo(msgspec.json.encode(names).decode())
