"""PodTopologySpread: spread pods evenly over zones, nodes or other domains."""

from kubesched.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
