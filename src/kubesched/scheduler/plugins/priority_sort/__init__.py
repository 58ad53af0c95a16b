"""PrioritySort: pods of higher priority are scheduled first."""

from kubesched.scheduler.plugins.priority_sort.plugin import PrioritySort

__all__ = ["PrioritySort"]
