"""VolumeRestrictions: disks and claims that only one pod can use."""

from kubesched.scheduler.plugins.volume_restrictions.plugin import VolumeRestrictions

__all__ = ["VolumeRestrictions"]
