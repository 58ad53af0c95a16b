"""What knows nothing of Kubernetes: time, chance, order, numbers, components, logging.

Nothing is re-exported: import from the module that holds the idea.
"""
