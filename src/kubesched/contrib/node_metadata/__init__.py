"""NodeMetadata: score nodes by a number or a time in a label or an annotation."""

from kubesched.contrib.node_metadata.plugin import NodeMetadata, NodeMetadataArgs

__all__ = ["NodeMetadata", "NodeMetadataArgs"]
