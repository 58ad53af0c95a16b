"""NodeName: a pod that names a node fits only that node."""

from kubesched.scheduler.plugins.node_name.plugin import NodeName

__all__ = ["NodeName"]
