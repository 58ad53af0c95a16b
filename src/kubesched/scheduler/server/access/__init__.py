"""Authentication and authorization of requests, delegated to the cluster's API server.

docs/reference/02 §3, §4.
"""
