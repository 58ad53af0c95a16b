"""DefaultBinder: bind a pod through the API."""

from kubesched.plugins.default_binder.plugin import DefaultBinder

__all__ = ["DefaultBinder"]
