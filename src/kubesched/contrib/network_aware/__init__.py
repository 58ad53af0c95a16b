"""NetworkOverhead and TopologicalSort: place the pods of an application near each other."""

from kubesched.contrib.network_aware.network_overhead import NetworkOverhead, NetworkOverheadArgs
from kubesched.contrib.network_aware.topological_sort import TopologicalSort, TopologicalSortArgs

__all__ = ["NetworkOverhead", "NetworkOverheadArgs", "TopologicalSort", "TopologicalSortArgs"]
