"""PodState: prefer nodes that pods leave, and avoid nodes that preemptors wait for."""

from kubesched.contrib.pod_state.plugin import PodState

__all__ = ["PodState"]
