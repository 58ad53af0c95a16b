"""InterPodAffinity: place pods near other pods, or away from them."""

from kubesched.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
