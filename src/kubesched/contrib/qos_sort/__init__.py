"""QOSSort: of pods with one priority, those with guaranteed resources come first."""

from kubesched.contrib.qos_sort.plugin import QOSSort

__all__ = ["QOSSort"]
