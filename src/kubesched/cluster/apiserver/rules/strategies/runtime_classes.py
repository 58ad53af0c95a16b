"""RuntimeClass admission: the overhead, node selector and tolerations of a pod's class."""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.rules.errors.api_errors import forbidden
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ObjectLookup

__all__ = ["apply_runtime_class"]


def apply_runtime_class(pod: Json, spec: Json, cluster: ObjectLookup) -> Json:
    """Add the overhead, node selector and tolerations of the pod's class to its spec.

    Raises:
        ApiError: 403, the class does not exist, or the pod conflicts with it.
    """
    name = spec.get("runtimeClassName")
    overhead = spec.get("overhead")
    if not name:
        if overhead:
            raise _refused(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass "
                           "defined Overhead")  # fmt: skip
        return spec
    found = cluster.find("runtimeclasses", name)
    if found is None:
        raise _refused(pod, f'pod rejected: RuntimeClass "{name}" not found')
    fixed = (found.get("overhead") or {}).get("podFixed")
    if overhead and overhead != fixed:
        raise _refused(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined "
                       "Overhead")  # fmt: skip
    changed = spec
    if fixed:
        changed = {**changed, "overhead": fixed}
    scheduling: Json = found.get("scheduling") or {}
    if selector := scheduling.get("nodeSelector"):
        changed = {**changed, "nodeSelector": _merged(pod, changed, selector)}
    if tolerations := scheduling.get("tolerations"):
        own: list[Any] = changed.get("tolerations", [])
        added = [each for each in tolerations if each not in own]
        changed = {**changed, "tolerations": [*own, *added]}
    return changed


def _merged(pod: Json, spec: Json, selector: dict[str, str]) -> dict[str, str]:
    own: dict[str, str] = spec.get("nodeSelector", {})
    for key, value in selector.items():
        if own.get(key, value) != value:
            text = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            text += f"pod.spec.nodeSelector[{key}] = {own[key]}"
            raise _refused(pod, text)
    return {**own, **selector}


def _refused(pod: Json, text: str) -> Exception:
    metadata = pod["metadata"]
    return forbidden("pods", metadata.get("name") or metadata.get("generateName", ""), text)
