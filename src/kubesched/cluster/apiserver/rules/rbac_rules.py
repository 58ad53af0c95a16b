"""Who may do what, by roles and their bindings.

Plain functions over the documents of roles: what a rule covers, whom a binding is about, and
whether some rules cover others, which is what keeps people from giving away more than they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import msgspec

__all__ = ["Attributes", "Subject", "covered", "resource_rules", "rule_allows", "subject_matches"]

Json = Mapping[str, Any]

_SERVICE_ACCOUNT = "system:serviceaccount:"
_ANY = "*"


class Attributes(msgspec.Struct, frozen=True):
    """What somebody wants to do: a verb on a resource, or on a path."""

    verb: str
    group: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def resource(self) -> str:
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


class Subject(msgspec.Struct, frozen=True):
    """Somebody whom bindings may be about."""

    name: str
    groups: tuple[str, ...] = ()


def subject_matches(subject: Json, who: Subject, namespace: str) -> bool:
    """Whether a subject of a binding, which is in a namespace, is this one."""
    match subject.get("kind"):
        case "User":
            return subject.get("name") in (_ANY, who.name)
        case "Group":
            return subject.get("name") in who.groups
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            return who.name == f"{_SERVICE_ACCOUNT}{home}:{subject.get('name')}"
    return False


def rule_allows(rule: Json, wanted: Attributes) -> bool:
    if not _has(rule.get("verbs"), wanted.verb):
        return False
    if not wanted.plural:
        return any(_path_matches(each, wanted.path) for each in rule.get("nonResourceURLs") or ())
    if not _has(rule.get("apiGroups"), wanted.group):
        return False
    if not any(_resource_matches(each, wanted) for each in rule.get("resources") or ()):
        return False
    names = rule.get("resourceNames")
    return not names or (bool(wanted.name) and wanted.name in names)


def _has(values: Iterable[str] | None, wanted: str) -> bool:
    return any(each in (_ANY, wanted) for each in values or ())


def _resource_matches(each: str, wanted: Attributes) -> bool:
    if each in (_ANY, wanted.resource):
        return True
    # `*/scale` is that part of everything.
    return bool(wanted.subresource) and each == f"{_ANY}/{wanted.subresource}"


def _path_matches(each: str, path: str) -> bool:
    return path.startswith(each[:-1]) if each.endswith(_ANY) else each == path


def covered(rules: Iterable[Json], wanted: Iterable[Json]) -> bool:
    """Whether everything that `wanted` rules allow is allowed by `rules` as well."""
    held = list(rules)
    return all(any(rule_allows(rule, each) for rule in held) for each in resource_rules(wanted))


def resource_rules(rules: Iterable[Json]) -> Iterator[Attributes]:
    """Rules taken apart: one thing to do after another, with stars as they are."""
    for rule in rules:
        for verb, path in product(rule.get("verbs") or (), rule.get("nonResourceURLs") or ()):
            yield Attributes(verb, path=path)
        names = rule.get("resourceNames") or ("",)
        parts = (rule.get("verbs") or (), rule.get("apiGroups") or (), rule.get("resources") or ())
        for verb, group, resource, name in product(*parts, names):
            plural, _, subresource = resource.partition("/")
            yield Attributes(verb, group, plural, subresource, name=name)
