"""The web page of a cluster: nodes, queue, explanations; read-only unless it is embedded."""

from kubesched.dashboard.dashboard import Dashboard

__all__ = ["Dashboard"]
