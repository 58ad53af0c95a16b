"""Validation of what containers refer to: variables and mounts of volumes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    absent,
    invalid,
    required,
)

__all__ = ["check_mounts", "check_variables"]

Json = Mapping[str, Any]


def check_variables(variables: Sequence[Json], path: str) -> Iterator[FieldProblem]:
    """Yield the problems of the environment of a container."""
    for index, each in enumerate(variables):
        at, name = f"{path}[{index}]", each.get("name") or ""
        if not name:
            yield required(f"{at}.name")
        elif "=" in name or not (name.isascii() and name.isprintable()):
            text = (
                "a valid environment variable name must consist only of printable ASCII "
                "characters other than '='"
            )
            yield invalid(f"{at}.name", name, text)
        source = each.get("valueFrom")
        if source is None:
            continue
        given = [key for key, value in source.items() if value is not None]
        if not given:
            text = (
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
                "`secretKeyRef` or `fileKeyRef`"
            )
            yield invalid(f"{at}.valueFrom", "", text)
        elif each.get("value"):
            yield invalid(f"{at}.valueFrom", "", "may not be specified when `value` is not empty")
        elif len(given) > 1:
            text = "may not have more than one field specified at a time"
            yield invalid(f"{at}.valueFrom", "", text)


def check_mounts(
    mounts: Sequence[Json], volumes: Collection[str], path: str
) -> Iterator[FieldProblem]:
    """Yield the problems of the mounts of a container in a pod with these volumes."""
    taken: set[str] = set()
    for index, each in enumerate(mounts):
        at, name, place = f"{path}[{index}]", each.get("name") or "", each.get("mountPath") or ""
        if not name:
            yield required(f"{at}.name")
        if name not in volumes:
            yield absent(f"{at}.name", name)
        if not place:
            yield required(f"{at}.mountPath")
        if place in taken:
            yield invalid(f"{at}.mountPath", place, "must be unique")
        taken.add(place)
        for field in ("subPath", "subPathExpr"):
            inner = each.get(field) or ""
            if inner.startswith("/"):
                yield invalid(f"{at}.{field}", inner, "must be a relative path")
            if ".." in inner.split("/"):
                yield invalid(f"{at}.{field}", inner, "must not contain '..'")
