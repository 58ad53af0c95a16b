"""The in-tree plugins, one folder each; `registry.py` lists them.

docs/reference/05 to 08.
"""
