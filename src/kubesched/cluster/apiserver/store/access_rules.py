"""Authorization by the roles and bindings in a store, and of nodes by their pods.

A ClusterRole with an aggregation rule has the rules of the roles that it selects, and of those
that they select. They are collected when a request first needs them, and again after a ClusterRole
has changed, so there is no aggregated state to store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api.labels import Selector
from kubesched.api.meta import LabelSelector
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.rbac_rules import (
    Attributes,
    Subject,
    count_permissions,
    rule_allows,
    rules_cover,
    subject_matches,
)
from kubesched.cluster.apiserver.store.node_authorization import NodeAuthorization, node_name_of
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.errors import SelectorError
from kubesched.foundation.util.logging import get_logger

__all__ = ["MOST_COMPARISONS", "MOST_GRANT_CHECKS", "AccessRules"]

log = get_logger(__name__)

Json = dict[str, Any]

_GROUP = "rbac.authorization.k8s.io"
_MASTERS = "system:masters"


# A role with more selectors and roles to compare than this has no aggregated rules.
MOST_COMPARISONS = 100_000
# The maximum number of permissions in a role, times the number of rules of its author.
MOST_GRANT_CHECKS = 100_000
_FULL_AUTHORITY: tuple[Json, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)


class AccessRules:
    """Authorizes requests by the current roles and bindings of a store."""

    def __init__(self, store: Store) -> None:
        def collection(plural: str) -> Collection:
            return store.collection(store.catalog.by_url(_GROUP, "v1", plural))

        self.nodes = NodeAuthorization(store)
        self._cluster_role_log = collection("clusterroles")
        self._cluster_roles = self._cluster_role_log.objects
        self._cluster_bindings = collection("clusterrolebindings").objects
        self._roles = collection("roles").objects
        self._bindings = collection("rolebindings").objects
        # The rules of aggregating roles by name, at a position in the log of ClusterRoles.
        self._aggregated: dict[str, list[Json]] = {}
        self._aggregated_at = -1

    def allows(self, subject: Subject, attributes: Attributes) -> bool:
        if _MASTERS in subject.groups:
            return True
        node = node_name_of(subject)
        if node and self.nodes.allows(node, attributes):
            return True
        rules = self.rules_of(subject, attributes.namespace)
        return any(rule_allows(rule, attributes) for rule in rules)

    def rules_of(self, subject: Subject, namespace: str) -> Iterator[Json]:
        """Iterate over the rules of a subject in a namespace, or cluster-wide if it is empty."""
        for record in self._cluster_bindings.values():
            if _binds(record.data, subject, ""):
                yield from self._bound_rules(record.data, "")
        if not namespace:
            return
        prefix = f"{namespace}/"
        for key, record in self._bindings.items():
            if key.startswith(prefix) and _binds(record.data, subject, namespace):
                yield from self._bound_rules(record.data, namespace)

    def check_grant(
        self, subject: Subject, plural: str, document: Json, namespace: str, old: Json | None = None
    ) -> None:
        """Refuse a role or binding that grants more permissions than the subject has.

        `old` is the object that the document replaces.

        Raises:
            ApiError: 403; 404 for a binding to a role that does not exist.
        """
        if _MASTERS in subject.groups:
            return
        if plural in ("rolebindings", "clusterrolebindings"):
            self._check_binding(subject, plural, document, namespace)
            return
        name = document.get("metadata", {}).get("name", "")
        escalates = Attributes("escalate", _GROUP, plural, namespace=namespace, name=name)
        if self.allows(subject, escalates):
            return
        self._check_cover(subject, plural, name, namespace, document.get("rules") or ())
        if _selectors(document) or _selectors(old or {}):
            owned = list(self.rules_of(subject, namespace))
            if not rules_cover(owned, _FULL_AUTHORITY):
                text = "must have cluster-admin privileges to use the aggregationRule"
                raise api_errors.forbidden(f"{plural}.{_GROUP}", name, text)

    def _check_binding(self, subject: Subject, plural: str, document: Json, namespace: str) -> None:
        reference = document.get("roleRef") or {}
        target = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
        bound = reference.get("name", "")
        binds = Attributes("bind", _GROUP, target, namespace=namespace, name=bound)
        if self.allows(subject, binds):
            return
        if self._role(document, namespace) is None:
            raise api_errors.not_found(f"{target}.{_GROUP}", bound)
        name = document.get("metadata", {}).get("name", "")
        rules = self._bound_rules(document, namespace)
        self._check_cover(subject, plural, name, namespace, rules)

    def _check_cover(
        self, subject: Subject, plural: str, name: str, namespace: str, granted: Iterable[Json]
    ) -> None:
        """Raises ApiError 403 if the subject lacks a permission that the rules grant."""
        granted, owned = list(granted), list(self.rules_of(subject, namespace))
        checks = sum(map(count_permissions, granted)) * len(owned)
        if checks <= MOST_GRANT_CHECKS and rules_cover(owned, granted):
            return
        groups = ", ".join(f'"{group}"' for group in subject.groups)
        raise api_errors.forbidden(
            f"{plural}.{_GROUP}",
            name,
            f'user "{subject.name}" (groups=[{groups}]) is attempting to grant RBAC permissions '
            "not currently held",
        )

    def _role(self, binding: Json, namespace: str) -> Record | None:
        reference = binding.get("roleRef") or {}
        name = reference.get("name", "")
        if reference.get("kind") == "ClusterRole":
            return self._cluster_roles.get(name)
        return self._roles.get(f"{namespace}/{name}")

    def _bound_rules(self, binding: Json, namespace: str) -> Iterable[Json]:
        record = self._role(binding, namespace)
        if record is None:
            return ()
        if not _selectors(record.data):
            return record.data.get("rules") or ()
        if self._aggregated_at != self._cluster_role_log.end:
            self._aggregated.clear()
            self._aggregated_at = self._cluster_role_log.end
        rules = self._aggregated.get(record.key)
        if rules is None:
            rules = self._aggregated[record.key] = self._aggregate(record)
        return rules

    def _aggregate(self, first: Record) -> list[Json]:
        """Collect the rules of the roles that a role selects, directly or through others."""
        others = dict(self._cluster_roles)
        del others[first.key]
        rules: list[Json] = []
        reached, used, comparisons = [first], set[bytes](), 0
        for record in reached:  # grows while it is read
            for selector in _selectors(record.data):
                encoded = msgspec.json.encode(selector)
                if encoded in used:
                    continue
                used.add(encoded)
                comparisons += len(others)
                if comparisons > MOST_COMPARISONS:
                    log.warning("Too many roles to aggregate", clusterrole=first.key)
                    return []
                for key in _selected(others, selector):
                    chosen = others.pop(key)
                    reached.append(chosen)
                    if not _selectors(chosen.data):
                        rules.extend(chosen.data.get("rules") or ())
        return rules


def _binds(binding: Json, subject: Subject, namespace: str) -> bool:
    subjects = binding.get("subjects") or ()
    return any(subject_matches(each, subject, namespace) for each in subjects)


def _selectors(role: Json) -> Sequence[Json]:
    """Return the selectors of a role that aggregates others; empty for other roles."""
    return (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()


def _selected(roles: Mapping[str, Record], selector: Json) -> list[str]:
    """Return the names of the roles that a selector matches; none if it is invalid."""
    try:
        chosen = Selector.from_label_selector(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return []
    return [
        key
        for key, record in roles.items()
        if chosen.matches(record.data["metadata"].get("labels") or {})
    ]
