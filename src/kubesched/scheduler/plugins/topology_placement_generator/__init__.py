"""TopologyPlacementGenerator: one placement per topology domain of a pod group."""

from kubesched.scheduler.plugins.topology_placement_generator.plugin import (
    TopologyPlacementGenerator,
)

__all__ = ["TopologyPlacementGenerator"]
