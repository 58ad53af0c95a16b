"""NodeAffinity: node selectors and node affinity, required and preferred."""

from kubesched.scheduler.plugins.node_affinity.plugin import NodeAffinity

__all__ = ["NodeAffinity"]
