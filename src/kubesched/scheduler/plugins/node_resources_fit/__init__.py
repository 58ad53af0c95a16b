"""NodeResourcesFit: a node must have room; the strategy ranks those that do."""

from kubesched.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit

__all__ = ["NodeResourcesFit"]
