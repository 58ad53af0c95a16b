"""The page: a cluster at a glance, its queue, and why. Read-only unless the cluster is embedded."""

from kubesched.dashboard.dashboard import Dashboard

__all__ = ["Dashboard"]
