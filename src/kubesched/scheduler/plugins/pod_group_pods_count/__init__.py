"""PodGroupPodsCount: prefer the placement on which the most pods of a group fit."""

from kubesched.scheduler.plugins.pod_group_pods_count.plugin import PodGroupPodsCount

__all__ = ["PodGroupPodsCount"]
