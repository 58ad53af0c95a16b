"""Who asks, and whether they may: delegated to the cluster's API server.

docs/reference/02 §3, §4.
"""
