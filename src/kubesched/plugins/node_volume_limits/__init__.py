"""NodeVolumeLimits: CSI drivers attach so many volumes to a node."""

from kubesched.plugins.node_volume_limits.plugin import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
