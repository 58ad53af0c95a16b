"""NodePorts: only one pod of a node can use a host port."""

from kubesched.scheduler.plugins.node_ports.plugin import NodePorts

__all__ = ["NodePorts"]
