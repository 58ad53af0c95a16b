"""Code that does not depend on Kubernetes: time, chance, order, numbers, components, logging.

Nothing is re-exported: import from the module that holds the idea.
"""
