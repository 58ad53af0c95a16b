"""NodeDeclaredFeatures: a node must have the features that a pod requires."""

from kubesched.scheduler.plugins.node_declared_features.plugin import NodeDeclaredFeatures

__all__ = ["NodeDeclaredFeatures"]
