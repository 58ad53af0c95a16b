"""NodeVolumeLimits: CSI drivers attach so many volumes to a node."""

from kubesched.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
