"""CapacityScheduling: namespaces have quotas, and may borrow the unused part of other quotas."""

from kubesched.contrib.capacity_scheduling.plugin import CapacityScheduling

__all__ = ["CapacityScheduling"]
