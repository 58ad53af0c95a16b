"""NodeResourcesFit: a node must have room for a pod; score the nodes that have."""

from kubesched.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit

__all__ = ["NodeResourcesFit"]
