"""DefaultPreemption: evict less important pods to make room."""

from kubesched.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
