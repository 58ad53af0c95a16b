"""Removes the pod-level amounts of pods that disabled feature gates exclude.

Pod-level requests are read in many places: in the totals of nodes, in filters and in scores.
Therefore they are removed when the informer stores the pod, as an API server with the gate disabled
would do.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kubesched.api import Pod

__all__ = ["pod_level_transform"]


def pod_level_transform(feature_enabled: Callable[[str], bool]) -> Callable[[Pod], Pod] | None:
    """Return the function that removes the fields of disabled gates; None if nothing is disabled.

    docs/reference/01 §16.2: PodLevelResources is about requests, and
    InPlacePodLevelResourcesVerticalScaling about the amounts in the status after a resize.
    """
    if not feature_enabled("PodLevelResources"):
        return _without_requests
    if not feature_enabled("InPlacePodLevelResourcesVerticalScaling"):
        return _without_resize
    return None


def _without_requests(pod: Pod) -> Pod:
    if pod.spec.resources is not None:
        pod = replace(pod, spec=replace(pod.spec, resources=None))
    return _without_resize(pod)


def _without_resize(pod: Pod) -> Pod:
    status = pod.status
    if status.resources is None and not status.allocated_resources:
        return pod
    return replace(pod, status=replace(status, resources=None, allocated_resources={}))
