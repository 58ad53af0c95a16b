"""NodeDeclaredFeatures: a node must have the features that a pod needs."""

from kubesched.scheduler.plugins.node_declared_features.plugin import NodeDeclaredFeatures

__all__ = ["NodeDeclaredFeatures"]
