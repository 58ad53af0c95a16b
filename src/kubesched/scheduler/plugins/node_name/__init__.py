"""NodeName: a pod that names a node fits no other."""

from kubesched.scheduler.plugins.node_name.plugin import NodeName

__all__ = ["NodeName"]
