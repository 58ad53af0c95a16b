"""VolumeBinding: a pod goes where its volumes are, can be bound, or can be made."""

from kubesched.scheduler.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
