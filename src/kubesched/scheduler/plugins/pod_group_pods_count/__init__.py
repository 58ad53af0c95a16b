"""PodGroupPodsCount: prefer the placement with room for most pods of a group."""

from kubesched.scheduler.plugins.pod_group_pods_count.plugin import PodGroupPodsCount

__all__ = ["PodGroupPodsCount"]
