"""Evaluation of RBAC rules.

Pure functions on the documents of roles and bindings: whether a rule allows a request, whether a
subject of a binding matches, and whether some rules cover others. The last check prevents users
from granting permissions that they do not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import msgspec

__all__ = [
    "Attributes",
    "Subject",
    "count_permissions",
    "expand_rules",
    "rule_allows",
    "rules_cover",
    "subject_matches",
]

Json = Mapping[str, Any]

_SERVICE_ACCOUNT = "system:serviceaccount:"
_ANY = "*"


class Attributes(msgspec.Struct, frozen=True):
    """The attributes of a request: a verb on a resource, or on a path."""

    verb: str
    group: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    # The field selector of a list, a watch or a deletion of a collection.
    field_selector: str = ""

    @property
    def resource(self) -> str:
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


class Subject(msgspec.Struct, frozen=True):
    """A user with groups, to whom bindings can refer."""

    name: str
    groups: tuple[str, ...] = ()


def subject_matches(binding_subject: Json, subject: Subject, namespace: str) -> bool:
    """Whether a subject in a binding of a namespace refers to this subject."""
    match binding_subject.get("kind"):
        case "User":
            return bool(binding_subject.get("name") == subject.name)
        case "Group":
            return binding_subject.get("name") in subject.groups
        case "ServiceAccount":
            account_namespace = binding_subject.get("namespace") or namespace
            account = f"{account_namespace}:{binding_subject.get('name')}"
            return subject.name == f"{_SERVICE_ACCOUNT}{account}"
    return False


def rule_allows(rule: Json, attributes: Attributes) -> bool:
    if not _has(rule.get("verbs"), attributes.verb):
        return False
    if not attributes.plural:
        urls = rule.get("nonResourceURLs") or ()
        return any(_path_matches(each, attributes.path) for each in urls)
    if not _has(rule.get("apiGroups"), attributes.group):
        return False
    if not any(_resource_matches(each, attributes) for each in rule.get("resources") or ()):
        return False
    names = rule.get("resourceNames")
    return not names or (bool(attributes.name) and attributes.name in names)


def _has(values: Iterable[str] | None, value: str) -> bool:
    return any(each in (_ANY, value) for each in values or ())


def _resource_matches(pattern: str, attributes: Attributes) -> bool:
    if pattern in (_ANY, attributes.resource):
        return True
    # `*/scale` is the scale subresource of every resource.
    return bool(attributes.subresource) and pattern == f"{_ANY}/{attributes.subresource}"


def _path_matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith(_ANY) else pattern == path


def rules_cover(rules: Iterable[Json], granted: Iterable[Json]) -> bool:
    """Whether `rules` allow everything that the `granted` rules allow."""
    owned = list(rules)
    return all(any(rule_allows(rule, each) for rule in owned) for each in expand_rules(granted))


def count_permissions(rule: Json) -> int:
    """Return the number of single permissions of a rule."""
    verbs = len(rule.get("verbs") or ())
    resources = len(rule.get("apiGroups") or ()) * len(rule.get("resources") or ())
    names = len(rule.get("resourceNames") or ("",))
    return verbs * (len(rule.get("nonResourceURLs") or ()) + resources * names)


def expand_rules(rules: Iterable[Json]) -> Iterator[Attributes]:
    """Expand rules into single permissions. Wildcards stay wildcards."""
    for rule in rules:
        for verb, path in product(rule.get("verbs") or (), rule.get("nonResourceURLs") or ()):
            yield Attributes(verb, path=path)
        names = rule.get("resourceNames") or ("",)
        parts = (rule.get("verbs") or (), rule.get("apiGroups") or (), rule.get("resources") or ())
        for verb, group, resource, name in product(*parts, names):
            plural, _, subresource = resource.partition("/")
            yield Attributes(verb, group, plural, subresource, name=name)
