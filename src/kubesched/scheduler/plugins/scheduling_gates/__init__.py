"""SchedulingGates: a pod with gates is not scheduled."""

from kubesched.scheduler.plugins.scheduling_gates.plugin import SchedulingGates

__all__ = ["SchedulingGates"]
