"""SchedulingGates: a pod with gates is not scheduled."""

from kubesched.plugins.scheduling_gates.plugin import SchedulingGates

__all__ = ["SchedulingGates"]
