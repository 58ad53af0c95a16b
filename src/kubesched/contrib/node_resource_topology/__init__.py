"""NodeResourceTopologyMatch: place pods where their NUMA resources can be aligned."""

from kubesched.contrib.node_resource_topology.plugin import NodeResourceTopologyMatch

__all__ = ["NodeResourceTopologyMatch"]
