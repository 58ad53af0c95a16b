"""Features that nodes declare, and which of them a pod needs (docs/reference/05 §7.12).

A set of features is a number: bit i stands for the i-th registered name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kubesched.api import PodSpec

__all__ = ["bit_string", "declared_features", "required_features"]


def _restarts_all_containers(spec: PodSpec) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    )


def _has_host_network_in_user_namespace(spec: PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


def _never(spec: PodSpec) -> bool:  # noqa: ARG001
    return False


# In the order of their names, which nodes must keep too.
_NEEDED_BY: Final[Mapping[str, Callable[[PodSpec], bool]]] = {
    "ExtendWebSocketsToKubelet": _never,
    "InPlacePodLevelResourcesVerticalScaling": _never,
    "InPlacePodVerticalScalingInitContainers": _never,
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _has_host_network_in_user_namespace,
}
_NAMES: Final = tuple(_NEEDED_BY)


def required_features(spec: PodSpec) -> int:
    """The features that a node must have to run the pod."""
    return sum(1 << bit for bit, needed in enumerate(_NEEDED_BY.values()) if needed(spec))


def declared_features(names: Sequence[str]) -> int:
    """The known features in a node's list, which should be sorted.

    A name that comes after a greater one is lost, as in the reference.
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
    """Ones and zeros, the first name leftmost."""
    return "".join("1" if features >> bit & 1 else "0" for bit in range(len(_NAMES)))
