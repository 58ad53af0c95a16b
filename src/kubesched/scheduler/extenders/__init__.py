"""HTTP extenders: services outside this process that take part in decisions.

docs/reference/04 §18.
"""
