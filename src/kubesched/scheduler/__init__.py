"""The scheduler: from a watch event to a bound pod.

`scheduler.py` is the loop. docs/architecture.md follows one pod through the folders.
"""
