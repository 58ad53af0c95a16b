"""PrioritySort: higher priority first, then longer waiting time."""

from kubesched.scheduler.plugins.priority_sort.plugin import PrioritySort

__all__ = ["PrioritySort"]
