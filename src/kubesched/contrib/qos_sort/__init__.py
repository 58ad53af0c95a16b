"""QOSSort: among pods of equal priority, those in the class Guaranteed come first."""

from kubesched.contrib.qos_sort.plugin import QOSSort

__all__ = ["QOSSort"]
