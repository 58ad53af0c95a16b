"""DefaultPreemption: evict less important pods to make room."""

from kubesched.scheduler.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
