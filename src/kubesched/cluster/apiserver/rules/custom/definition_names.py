"""Validation of the names, group and versions in a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubesched.api.kinds import KINDS
from kubesched.api.plain_kinds import PLAIN_KINDS
from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.names import dns_1035_label, dns_subdomain

__all__ = ["naming_problems"]

Json = dict[str, Any]

_SCOPES: Final = ("Cluster", "Namespaced")
_LOWER_CASE: Final = ("plural", "singular")
_BUILT_IN_GROUPS: Final = frozenset(kind.group for kind in (*KINDS, *PLAIN_KINDS))


def naming_problems(name: str, spec: Any) -> list[FieldProblem]:
    """Return the problems that prevent the server from serving the defined resource."""
    names = spec.get("names") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(names, dict):
        return [required("spec")]
    problems = [
        *_name_problems(names),
        *_group_problems(spec.get("group")),
        *_version_problems(spec.get("versions")),
    ]
    if spec.get("scope", "Namespaced") not in _SCOPES:
        problems.append(not_supported("spec.scope", spec["scope"], _SCOPES))
    if not problems and name != f"{names['plural']}.{spec['group']}":
        detail = 'must be spec.names.plural+"."+spec.group'
        problems.append(invalid("metadata.name", name, detail))
    return problems


def _group_problems(group: Any) -> Iterator[FieldProblem]:
    if not isinstance(group, str) or not group:
        yield required("spec.group")
    elif complaints := dns_subdomain(group):
        yield invalid("spec.group", group, complaints[0])
    elif "." not in group:
        # Groups without a dot, such as `apps`, are reserved for the Kubernetes API.
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    elif group in _BUILT_IN_GROUPS:
        yield invalid("spec.group", group, "is served by the server itself")


def _name_problems(names: Json) -> Iterator[FieldProblem]:
    for field in ("plural", "kind"):
        if not isinstance(names.get(field), str) or not names[field]:
            yield required(f"spec.names.{field}")
    for field in ("plural", "singular", "kind", "listKind"):
        text = names.get(field)
        if text is None or text == "":
            continue
        if not isinstance(text, str):
            yield invalid(f"spec.names.{field}", text, "must be a string")
        elif complaints := dns_1035_label(text if field in _LOWER_CASE else text.lower()):
            yield invalid(f"spec.names.{field}", text, complaints[0])
    for field in ("shortNames", "categories"):
        texts = names.get(field) or []
        if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
            yield invalid(f"spec.names.{field}", texts, "must be a list of strings")


def _version_problems(versions: Any) -> Iterator[FieldProblem]:
    if not isinstance(versions, list) or not versions:
        yield required("spec.versions")
        return
    seen: set[str] = set()
    for place, version in enumerate(versions):
        path = f"spec.versions[{place}]"
        if not isinstance(version, dict):
            yield invalid(path, version, "must be an object")
            continue
        name = version.get("name")
        if not isinstance(name, str) or not name:
            yield required(f"{path}.name")
        elif complaints := dns_1035_label(name):
            yield invalid(f"{path}.name", name, complaints[0])
        elif name in seen:
            yield duplicate(f"{path}.name", name)
        else:
            seen.add(name)
        for field in ("served", "storage"):
            if not isinstance(version.get(field, False), bool):
                yield invalid(f"{path}.{field}", version[field], "must be a boolean")
        if not isinstance(version.get("subresources") or {}, dict):
            yield invalid(f"{path}.subresources", version["subresources"], "must be an object")
