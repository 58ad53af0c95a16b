"""NodeResourcesBalancedAllocation: prefer nodes with balanced resource usage."""

from kubesched.scheduler.plugins.node_resources_balanced_allocation.plugin import (
    NodeResourcesBalancedAllocation,
)

__all__ = ["NodeResourcesBalancedAllocation"]
