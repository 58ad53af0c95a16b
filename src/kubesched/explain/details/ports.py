"""Host ports: which of them is taken, and by whom."""

from __future__ import annotations

from kubesched.api import Pod
from kubesched.api.host_ports import HostPort, ports_conflict
from kubesched.explain.details.context import Detail, DetailContext, listed, pod_name
from kubesched.framework import NodeInfo

__all__ = ["describe_ports", "holders_of"]


def describe_ports(context: DetailContext, _reason: str) -> Detail:
    wanted = context.pod_info.host_ports
    node = context.example
    taken = {
        f"{port.protocol} {port.port}": listed(map(pod_name, holders))
        for port in wanted
        if (holders := holders_of(node, port))
    }
    asked = ", ".join(f"{port.protocol} {port.port}" for port in wanted)
    if not taken:
        return Detail(asked, "", "", f"host port {asked} is taken", "host port taken")
    held = "; ".join(f"{port} by {who}" for port, who in taken.items())
    port, who = next(iter(taken.items()))
    where = "on every node" if context.is_about_all and len(context.nodes) > 1 else "there"
    says = f"host port {port} is taken {where} (on {node.name} by {who})"
    return Detail(asked, "", f"on {node.name} taken: {held}", says, f"host port {port} taken")


def holders_of(node: NodeInfo, port: HostPort) -> list[Pod]:
    """Pods on the node that hold a port which clashes with this one."""
    return [each.pod for each in node.pods if ports_conflict((port,), each.host_ports)]
