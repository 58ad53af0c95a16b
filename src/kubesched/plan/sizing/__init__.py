"""Computes the nodes that a workload needs: types from a catalog, and how many of each."""
