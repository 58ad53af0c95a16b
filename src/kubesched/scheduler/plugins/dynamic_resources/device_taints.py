"""Taints of devices, and the requests that tolerate them.

docs/reference/08 §8.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubesched.api import DeviceTaint, DeviceToleration

__all__ = ["are_tolerated"]


def are_tolerated(taints: Iterable[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> bool:
    """Whether every taint is tolerated by one of the tolerations."""
    return all(any(_tolerates(each, taint) for each in tolerations) for taint in taints)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False
