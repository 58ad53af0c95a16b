"""Coscheduling: the pods of a PodGroup are placed together or not at all."""

from kubesched.contrib.coscheduling.plugin import Coscheduling, CoschedulingArgs

__all__ = ["Coscheduling", "CoschedulingArgs"]
