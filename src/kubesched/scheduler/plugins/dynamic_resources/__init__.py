"""DynamicResources: allocate devices for the claims of pods."""

from kubesched.scheduler.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
