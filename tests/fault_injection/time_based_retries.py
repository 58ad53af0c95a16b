"""Retries of pods for which the reference has no event either.

A pod whose affinity matches the pod itself fits any node as soon as no other pod matches. The
deletion of the last matching pod is not an event for it (docs/reference/06 §2.8), so it waits for
the flush after five minutes, which most plans disable.
"""

from __future__ import annotations

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key
from kubesched.framework import PodInfo
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["retry_self_affine_pods"]


def retry_self_affine_pods(scheduler: Scheduler) -> None:
    """Activate the waiting pods whose affinity matches themselves, and no others."""
    waiting = scheduler.queue.pending_pods()[0]
    scheduler.services.activate({pod_key(pod): pod for pod in waiting if _wants_its_like(pod)})


def _wants_its_like(pod: Pod) -> bool:
    terms = PodInfo(pod).required_affinity_terms
    return bool(terms) and all(term.matches(pod, {}) for term in terms)
