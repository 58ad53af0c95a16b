"""Turns a packing into waves of evictions, and plays them with the real scheduler."""
