"""Pods that are scheduled together: the group cycle (docs/reference/09)."""
