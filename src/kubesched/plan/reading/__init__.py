"""Reads a packing problem from the objects of a cluster and the scheduler's own filters."""
