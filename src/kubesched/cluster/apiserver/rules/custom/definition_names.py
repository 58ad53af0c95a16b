"""Validation of the names, group, scope and versions of a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from kubesched.api.kinds import KINDS
from kubesched.api.plain_kinds import PLAIN_KINDS
from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    immutable,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.names import dns_1035_label, dns_subdomain
from kubesched.cluster.apiserver.rules.validation.version_order import version_rank

__all__ = [
    "approval_problems",
    "deprecation_warning",
    "fixed_problems",
    "naming_problems",
    "stored_version_problems",
]

Json = dict[str, Any]

_SCOPES: Final = ("Cluster", "Namespaced")
_LOWER_CASE: Final = ("plural", "singular")
_FIXED: Final = (("scope",), ("names", "kind"), ("group",), ("names", "plural"))
_APPROVAL: Final = "api-approved.kubernetes.io"
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


def approval_problems(definition: Json) -> list[FieldProblem]:
    """Return the problem of a new definition in a group of the Kubernetes community.

    Such a definition names its approval.
    """
    group = definition["spec"]["group"]
    if not group.endswith((".k8s.io", ".kubernetes.io")):
        return []
    path = f"metadata.annotations[{_APPROVAL}]"
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    approval = (definition["metadata"].get("annotations") or {}).get(_APPROVAL, "")
    if not approval:
        text = f'protected groups must have approval annotation "{_APPROVAL}", {see}'
        return [required(path, text)]
    if approval.startswith("unapproved") or _is_url(approval):
        return []
    text = (
        f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a '
        f'reason starting with "unapproved", {see}'
    )
    return [invalid(path, approval, text)]


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


def deprecation_warning(spec: Json, version: Json) -> str:
    """Return the warning for clients of a version; empty if it is not deprecated."""
    if not version.get("deprecated"):
        return ""
    if warning := version.get("deprecationWarning"):
        return str(warning)
    group, kind = spec["group"], spec["names"]["kind"]
    newer = [
        each["name"]
        for each in spec["versions"]
        if each.get("served")
        and not each.get("deprecated")
        and version_rank(each["name"]) < version_rank(version["name"])
    ]
    text = f"{group}/{version['name']} {kind} is deprecated"
    if newer:
        text += f"; use {group}/{min(newer, key=version_rank)} {kind}"
    return text


def fixed_problems(new: Json, old: Json) -> list[FieldProblem]:
    """Return the problems of a change: fields that are immutable, versions that are needed."""
    problems = [
        immutable(f"spec.{'.'.join(path)}", _at(new["spec"], path))
        for path in _FIXED
        if _at(new["spec"], path) != _at(old["spec"], path)
    ]
    return problems + stored_version_problems(new)


def stored_version_problems(definition: Json) -> list[FieldProblem]:
    """Return the problems of versions in which objects may be stored."""
    stored = definition.get("status", {}).get("storedVersions") or []
    path = "status.storedVersions"
    if not stored:
        return [invalid(path, stored, "must have at least one stored version")]
    versions = definition["spec"]["versions"]
    problems = [
        invalid(path, dict(version), f"must have the storage version {version['name']}")
        for version in versions
        if version.get("storage") and version["name"] not in stored
    ]
    names = {version["name"] for version in versions}
    problems += [
        invalid(f"{path}[{index}]", name, "missing from spec.versions")
        for index, name in enumerate(stored)
        if name not in names
    ]
    return problems


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data
