"""VolumeBinding: a node must reach the pod's volumes, or be able to get new ones."""

from kubesched.scheduler.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
