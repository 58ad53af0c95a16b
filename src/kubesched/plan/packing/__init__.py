"""Packing pods into the fewest nodes: a pure problem, its bound and its solutions."""
