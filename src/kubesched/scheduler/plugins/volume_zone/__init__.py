"""VolumeZone: volumes that are in one zone stay there."""

from kubesched.scheduler.plugins.volume_zone.plugin import VolumeZone

__all__ = ["VolumeZone"]
