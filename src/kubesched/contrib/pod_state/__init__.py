"""PodState: prefer nodes with terminating pods, and avoid nodes with nominated pods."""

from kubesched.contrib.pod_state.plugin import PodState

__all__ = ["PodState"]
