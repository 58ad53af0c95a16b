"""The objects that a new store creates: namespaces and priority classes."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["FIRST_OBJECTS"]


def _namespace(name: str) -> tuple[str, str, dict[str, Any]]:
    return "v1", "Namespace", {"metadata": {"name": name}}


def _priority_class(name: str, value: int, description: str) -> tuple[str, str, dict[str, Any]]:
    body = {"metadata": {"name": name}, "value": value, "description": description}
    return "scheduling.k8s.io/v1", "PriorityClass", body


# Version, kind and body, in order of creation.
FIRST_OBJECTS: Final = (
    _namespace("default"),
    _namespace("kube-node-lease"),
    _namespace("kube-public"),
    _namespace("kube-system"),
    _priority_class(
        "system-node-critical",
        2_000_001_000,
        "For pods without which their node does not work.",
    ),
    _priority_class(
        "system-cluster-critical",
        2_000_000_000,
        "For pods without which the cluster does not work, on whichever node.",
    ),
)
