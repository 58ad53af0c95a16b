"""NodeAffinity: node selectors and node affinity, required and preferred."""

from kubesched.plugins.node_affinity.plugin import NodeAffinity

__all__ = ["NodeAffinity"]
