"""ImageLocality: prefer nodes that have the pod's images."""

from kubesched.scheduler.plugins.image_locality.plugin import ImageLocality

__all__ = ["ImageLocality"]
