"""DefaultBinder: bind a pod through the API server."""

from kubesched.scheduler.plugins.default_binder.plugin import DefaultBinder

__all__ = ["DefaultBinder"]
