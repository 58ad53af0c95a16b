"""GangScheduling: place the pods of a gang together or not at all."""

from kubesched.scheduler.plugins.gang_scheduling.plugin import GangScheduling

__all__ = ["GangScheduling"]
