"""The in-tree plugins, one folder each; `registry.py` lists them (spec 05 to 08)."""
