"""Features that nodes declare and pods require (docs/reference/05 §7.12).

A set of features is an integer: bit i stands for the i-th registered name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kubesched.api import PodSpec

__all__ = ["bit_string", "declared_features", "required_features"]


def _restarts_all_containers(spec: PodSpec) -> bool:
    for container in (*spec.containers, *spec.init_containers):
        for rule in container.restart_policy_rules:
            if rule.action == "RestartAllContainers":
                return True
    return False


def _has_host_network_in_user_namespace(spec: PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


# Sorted: `declared_features` relies on the order, in which nodes must list them too.
_NAMES: Final = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
)
# Only these features can decide where a pod is placed; the others concern running pods.
_NEEDED_BY: Final[Mapping[str, Callable[[PodSpec], bool]]] = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _has_host_network_in_user_namespace,
}
_BITS: Final = tuple((1 << _NAMES.index(name), needed) for name, needed in _NEEDED_BY.items())


def required_features(spec: PodSpec) -> int:
    """Return the features that a node must have to run the pod."""
    required = 0
    for bit, needed in _BITS:
        if needed(spec):
            required |= bit
    return required


def declared_features(names: Sequence[str]) -> int:
    """Return the registered features in a node's list, which should be sorted.

    A name that follows a greater one is ignored, as in the reference.
    """
    found = bit = 0
    for name in names:
        while bit < len(_NAMES) and _NAMES[bit] < name:
            bit += 1
        if bit < len(_NAMES) and _NAMES[bit] == name:
            found |= 1 << bit
            bit += 1
    return found


def bit_string(features: int) -> str:
    """Format a set of features as ones and zeros, the first name leftmost."""
    return "".join("1" if features >> bit & 1 else "0" for bit in range(len(_NAMES)))
