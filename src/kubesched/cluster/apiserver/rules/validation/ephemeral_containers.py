"""Ephemeral containers, which `kubectl debug` adds to a running pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    absent,
    duplicate,
    forbidden,
    required,
)

__all__ = ["check_ephemeral_containers"]

Json = Mapping[str, Any]

_FIELD: Final = "spec.ephemeralContainers"
# A container that is added to a running pod has none of these.
_NOT_ALLOWED: Final = (
    "ports",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resources",
    "resizePolicy",
    "restartPolicy",
)


def check_ephemeral_containers(spec: Json, old: Json) -> list[FieldProblem]:
    """Check added containers, and that the existing ones are unchanged."""
    problems: list[FieldProblem] = []
    wanted = spec.get("ephemeralContainers") or ()
    kept = {each.get("name", ""): each for each in wanted}
    for each in old.get("ephemeralContainers") or ():
        if kept.get(each["name"]) != each:
            change = "changed" if each["name"] in kept else "removed"
            text = f'existing ephemeral containers "{each["name"]}" may not be {change}'
            problems.append(forbidden(_FIELD, text))
    existing = {each["name"] for each in old.get("ephemeralContainers") or ()}
    regular = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    names = {each["name"] for each in regular}
    targets = {each["name"] for each in spec.get("containers") or ()}
    for index, each in enumerate(wanted):
        field = f"{_FIELD}[{index}]"
        name = each.get("name", "")
        if not name:
            problems.append(required(f"{field}.name", ""))
        elif name in names:
            problems.append(duplicate(f"{field}.name", name))
        names.add(name)
        if name in existing:
            continue
        if not each.get("image"):
            problems.append(required(f"{field}.image", ""))
        if (target := each.get("targetContainerName")) and target not in targets:
            problems.append(absent(f"{field}.targetContainerName", target))
        problems += [
            forbidden(f"{field}.{part}", "cannot be set for an Ephemeral Container")
            for part in _NOT_ALLOWED
            if each.get(part)
        ]
    return problems
