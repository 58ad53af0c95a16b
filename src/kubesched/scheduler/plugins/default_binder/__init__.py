"""DefaultBinder: bind a pod through the API."""

from kubesched.scheduler.plugins.default_binder.plugin import DefaultBinder

__all__ = ["DefaultBinder"]
