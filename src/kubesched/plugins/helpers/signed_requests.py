"""The signature fragment of the plugins that look at requests (docs/reference/05 §8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Pod
from kubesched.api.pod_requests import PodRequestOptions, pod_requested
from kubesched.framework import Status
from kubesched.plugins.helpers.device_classes import DeviceClassResolver

__all__ = ["signed_requests"]

SERVED_BY_DEVICES = Status.unschedulable(
    "signature disabled when dra extended resources are used in the cluster"
)


def signed_requests(
    pod: Pod, options: PodRequestOptions, classes: DeviceClassResolver
) -> Mapping[str, Any] | Status:
    """What the pod requests in total, unless devices serve some of it."""
    wanted = pod_requested(pod, options)
    if classes.served([name for name, amount in wanted.scalar.items() if amount]):
        return SERVED_BY_DEVICES
    return {
        "v1.Pod.Spec.ContainerRequestsAndOverheads()": {
            "MilliCPU": wanted.milli_cpu,
            "Memory": wanted.memory,
            "EphemeralStorage": wanted.ephemeral_storage,
            "AllowedPodNumber": 0,
            "ScalarResources": wanted.scalar,
        }
    }
