"""VolumeZone: a node must match the zone and region labels of bound volumes."""

from kubesched.scheduler.plugins.volume_zone.plugin import VolumeZone

__all__ = ["VolumeZone"]
