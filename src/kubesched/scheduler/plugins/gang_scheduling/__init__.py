"""GangScheduling: pods of a gang are placed together or not at all."""

from kubesched.scheduler.plugins.gang_scheduling.plugin import GangScheduling

__all__ = ["GangScheduling"]
