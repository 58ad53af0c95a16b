"""NodeVolumeLimits: CSI drivers limit the volumes of a node."""

from kubesched.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
