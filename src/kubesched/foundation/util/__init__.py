"""Code that does not depend on Kubernetes: time, randomness, order, numbers, components, logging.

This package exports nothing: import from its modules.
"""
