"""Ephemeral containers, which `kubectl debug` adds to a running pod."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
    wanted = spec.get("ephemeralContainers") or ()
    existing = {each["name"]: each for each in old.get("ephemeralContainers") or ()}
    problems = _problems_of_existing(wanted, existing)
    targets = {each["name"] for each in spec.get("containers") or ()}
    names = targets | {each["name"] for each in spec.get("initContainers") or ()}
    for index, each in enumerate(wanted):
        field = f"{_FIELD}[{index}]"
        name = each.get("name", "")
        if not name:
            problems.append(required(f"{field}.name", ""))
        elif name in names:
            problems.append(duplicate(f"{field}.name", name))
        names.add(name)
        if name not in existing:
            problems += _problems_of_added(field, each, targets)
    return problems


def _problems_of_existing(
    wanted: Iterable[Json], existing: Mapping[str, Json]
) -> list[FieldProblem]:
    by_name = {each.get("name", ""): each for each in wanted}
    problems = []
    for name, container in existing.items():
        if by_name.get(name) != container:
            change = "changed" if name in by_name else "removed"
            text = f'existing ephemeral containers "{name}" may not be {change}'
            problems.append(forbidden(_FIELD, text))
    return problems


def _problems_of_added(field: str, container: Json, targets: Collection[str]) -> list[FieldProblem]:
    problems = []
    if not container.get("image"):
        problems.append(required(f"{field}.image", ""))
    if (target := container.get("targetContainerName")) and target not in targets:
        problems.append(absent(f"{field}.targetContainerName", target))
    problems += [
        forbidden(f"{field}.{part}", "cannot be set for an Ephemeral Container")
        for part in _NOT_ALLOWED
        if container.get(part)
    ]
    return problems
