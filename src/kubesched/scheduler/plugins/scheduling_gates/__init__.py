"""SchedulingGates: a pod with gates does not enter the queue."""

from kubesched.scheduler.plugins.scheduling_gates.plugin import SchedulingGates

__all__ = ["SchedulingGates"]
