"""NodeResourcesAllocatable: prefer small nodes, or large ones."""

from kubesched.contrib.node_resources_allocatable.plugin import (
    NodeResourcesAllocatable,
    NodeResourcesAllocatableArgs,
)

__all__ = ["NodeResourcesAllocatable", "NodeResourcesAllocatableArgs"]
