"""NodePorts: a host port can be taken once per node."""

from kubesched.scheduler.plugins.node_ports.plugin import NodePorts

__all__ = ["NodePorts"]
