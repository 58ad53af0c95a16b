"""Action of `kubesched node`: add fake nodes, remove them, stop and start them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import click
import msgspec

from kubesched.api import Node, NodeSpec, NodeStatus, ObjectMeta, Taint
from kubesched.api.access import ApiAccess
from kubesched.api.base import ResourceList
from kubesched.cli.cluster_address import ClusterAddress, live_api
from kubesched.cluster.controllers.device_driver import DEVICES, AnnotatedDevices
from kubesched.cluster.nodes.pod_behavior import STOPPED

__all__ = ["nodes_to_add", "run_add", "run_remove", "run_start", "run_stop"]

_PLATFORM = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


_HOSTNAME, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


Work = Callable[[ApiAccess, Callable[[str], None]], Awaitable[None]]


def run_add(
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
    groups = [
        AnnotatedDevices(driver, number, attributes, capacity, partitions)
        for driver, number in devices
    ]
    annotations = {DEVICES: msgspec.json.encode(groups).decode()} if groups else {}
    resources: ResourceList = {"cpu": cpu, "memory": memory, "pods": str(pods), **extended}
    named_zones = [zone for zone in zones.split(",") if zone]

    async def work(api: ApiAccess, report: Callable[[str], None]) -> None:
        existing = {each.metadata.name for each in (await api.list(Node)).items}
        for each in nodes_to_add(count, prefix, resources, labels, named_zones, taints, existing):
            metadata = msgspec.structs.replace(each.metadata, annotations=annotations)
            await api.create(msgspec.structs.replace(each, metadata=metadata))
            report(each.metadata.name)

    asyncio.run(_with_api(address, output, work))


def run_remove(names: tuple[str, ...], address: ClusterAddress, output: str) -> None:
    async def work(api: ApiAccess, report: Callable[[str], None]) -> None:
        for name in names:
            await api.delete(Node, name)
            report(name)

    asyncio.run(_with_api(address, output, work))


def run_stop(names: tuple[str, ...], selector: str, address: ClusterAddress, output: str) -> None:
    asyncio.run(_with_api(address, output, _marking(names, selector, "true")))


def run_start(names: tuple[str, ...], selector: str, address: ClusterAddress, output: str) -> None:
    asyncio.run(_with_api(address, output, _marking(names, selector, None)))


def _marking(names: Sequence[str], selector: str, stopped: str | None) -> Work:
    if not names and not selector:
        raise click.UsageError("name some nodes, or select them with --selector")

    async def work(api: ApiAccess, report: Callable[[str], None]) -> None:
        chosen = list(names)
        if selector:
            selected = await api.list(Node, label_selector=selector)
            chosen += [each.metadata.name for each in selected.items]
        for name in dict.fromkeys(chosen):
            patch = {"metadata": {"annotations": {STOPPED: stopped}}}
            await api.patch(Node, name, None, patch, patch_type="merge")
            report(name)

    return work


def nodes_to_add(
    count: int,
    prefix: str,
    resources: ResourceList,
    labels: dict[str, str],
    zones: Sequence[str],
    taints: tuple[Taint, ...],
    existing: Iterable[str],
) -> list[Node]:
    """Build nodes, with the lowest numbers that no existing node has."""
    taken = set(existing)
    added: list[Node] = []
    number = 0
    while len(added) < count:
        name = f"{prefix}-{number}"
        if name not in taken:
            marks = {_HOSTNAME: name, **_PLATFORM, **labels}
            if zones:
                marks[_ZONE] = zones[number % len(zones)]
            added.append(
                Node(
                    metadata=ObjectMeta(name=name, labels=marks),
                    spec=NodeSpec(taints=taints),
                    status=NodeStatus(capacity=resources, allocatable=resources),
                )
            )
        number += 1
    return added


async def _with_api(address: ClusterAddress, output: str, work: Work) -> None:
    """Run `work` on the cluster, and print the names of nodes: at once, or at the end as JSON."""
    names: list[str] = []
    is_json = output == "json"
    address.check_is_named()
    async with live_api(address, "node") as api:
        await work(api, names.append if is_json else click.echo)
    if is_json:
        click.echo(msgspec.json.encode(names).decode())
