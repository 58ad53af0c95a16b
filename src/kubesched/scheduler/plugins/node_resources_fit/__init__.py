"""NodeResourcesFit: reject nodes without room for the pod, and score the others."""

from kubesched.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit

__all__ = ["NodeResourcesFit"]
