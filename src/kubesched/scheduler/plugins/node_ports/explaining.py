"""Explains rejections by host ports: which port is taken, and by which pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesched.api import Pod
from kubesched.api.host_ports import HostPort, ports_conflict
from kubesched.framework import Cause, NodeInfo
from kubesched.framework.explaining import (
    Detail,
    Explaining,
    RejectedNodes,
    Remedy,
    Removal,
)
from kubesched.scheduler.plugins.helpers.pod_edits import (
    without_host_network,
    without_host_port,
)
from kubesched.scheduler.plugins.helpers.wording import (
    listed,
    pod_name,
)

__all__ = ["NodePortsExplaining"]

_MOST_FREED: Final = 6


class NodePortsExplaining(Explaining):
    """Names the pods that use the port, and proposes to move them or to remove the port."""

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        return _describe(rejected)

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        return _remedies(rejected)


def _describe(rejected: RejectedNodes) -> Detail:
    wanted = rejected.pod_info.host_ports
    node = rejected.example
    taken = {
        f"{port.protocol} {port.port}": listed(map(pod_name, holders))
        for port in wanted
        if (holders := _holders_of(node, port))
    }
    asked = ", ".join(f"{port.protocol} {port.port}" for port in wanted)
    if not taken:
        return Detail(asked, sentence=f"host port {asked} is taken", brief="host port taken")
    held = "; ".join(f"{port} by {who}" for port, who in taken.items())
    port, who = next(iter(taken.items()))
    where = "on every node" if rejected.are_all and len(rejected.nodes) > 1 else "there"
    sentence = f"host port {port} is taken {where} (on {node.name} by {who})"
    return Detail(
        asked,
        detail=f"on {node.name} taken: {held}",
        sentence=sentence,
        brief=f"host port {port} taken",
    )


def _holders_of(node: NodeInfo, port: HostPort) -> list[Pod]:
    """Return the pods on the node that use a host port in conflict with this one."""
    return [each.pod for each in node.pods if ports_conflict((port,), each.host_ports)]


def _remedies(rejected: RejectedNodes) -> Iterator[Remedy]:
    pod = rejected.pod
    ports = rejected.pod_info.host_ports
    for port in dict.fromkeys((each.protocol, each.port) for each in ports):
        if pod.spec.host_network:
            text = f"remove hostNetwork, and with it host port {port[0]} {port[1]}"
            yield Remedy(text, 1.0, without_host_network(pod))
            continue
        yield Remedy(f"remove host port {port[0]} {port[1]}", 1.0, without_host_port(pod, *port))
    for node in rejected.by_name[:_MOST_FREED]:
        holders = {each.metadata.uid: each for port in ports for each in _holders_of(node, port)}
        if len(holders) != 1:
            continue
        (holder,) = holders.values()
        name = f"{holder.metadata.namespace}/{holder.metadata.name}"
        yield Remedy(
            f"free the port on {node.name} by moving {name}",
            2.0,
            pod,
            (Removal(Pod, holder.metadata.name, holder.metadata.namespace),),
            node=node.name,
        )
