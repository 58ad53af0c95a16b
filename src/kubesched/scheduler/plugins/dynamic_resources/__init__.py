"""DynamicResources: pods that use resource claims."""

from kubesched.scheduler.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
