"""NodeResourcesBalancedAllocation: prefer nodes whose resources stay in proportion."""

from kubesched.scheduler.plugins.node_resources_balanced_allocation.plugin import (
    NodeResourcesBalancedAllocation,
)

__all__ = ["NodeResourcesBalancedAllocation"]
