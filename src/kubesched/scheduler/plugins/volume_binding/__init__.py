"""VolumeBinding: reject nodes that cannot reach the pod's volumes or get new ones."""

from kubesched.scheduler.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
