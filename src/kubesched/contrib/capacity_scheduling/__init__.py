"""CapacityScheduling: namespaces have quotas, and may borrow what others do not use."""

from kubesched.contrib.capacity_scheduling.plugin import CapacityScheduling

__all__ = ["CapacityScheduling"]
