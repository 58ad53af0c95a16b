"""Authorization by the roles and bindings in a store.

A ClusterRole with an aggregation rule has the rules of the roles that it selects. They are
collected for each request, so there is no aggregated state to update.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubesched.api.labels import Selector
from kubesched.api.meta import LabelSelector
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.rbac_rules import (
    Attributes,
    Subject,
    rule_allows,
    rules_cover,
    subject_matches,
)
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["AccessRules"]

Json = dict[str, Any]

_GROUP = "rbac.authorization.k8s.io"
_MASTERS = "system:masters"


class AccessRules:
    """Authorizes requests by the current roles and bindings of a store."""

    def __init__(self, store: Store) -> None:
        def objects(plural: str) -> Any:
            return store.collection(store.catalog.by_url(_GROUP, "v1", plural)).objects

        self._cluster_roles = objects("clusterroles")
        self._cluster_bindings = objects("clusterrolebindings")
        self._roles = objects("roles")
        self._bindings = objects("rolebindings")

    def allows(self, subject: Subject, attributes: Attributes) -> bool:
        if _MASTERS in subject.groups:
            return True
        rules = self.rules_of(subject, attributes.namespace)
        return any(rule_allows(rule, attributes) for rule in rules)

    def rules_of(self, subject: Subject, namespace: str) -> Iterator[Json]:
        """Iterate over the rules of a subject in a namespace, or cluster-wide if it is empty."""
        for record in self._cluster_bindings.values():
            if self._binds(record.data, subject, ""):
                yield from self._bound_rules(record.data, "")
        if not namespace:
            return
        prefix = f"{namespace}/"
        for key, record in self._bindings.items():
            if key.startswith(prefix) and self._binds(record.data, subject, namespace):
                yield from self._bound_rules(record.data, namespace)

    def check_grant(self, subject: Subject, plural: str, document: Json, namespace: str) -> None:
        """Refuse a role or binding that grants more permissions than the subject has.

        Raises:
            ApiError: 403.
        """
        if _MASTERS in subject.groups:
            return
        name = document.get("metadata", {}).get("name", "")
        if plural in ("roles", "clusterroles"):
            allowed = Attributes("escalate", _GROUP, plural, namespace=namespace, name=name)
            granted = [*self._own_rules(document)]
        else:
            reference = document.get("roleRef") or {}
            target = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
            bound = reference.get("name", "")
            allowed = Attributes("bind", _GROUP, target, namespace=namespace, name=bound)
            granted = [*self._bound_rules(document, namespace)]
        if self.allows(subject, allowed) or rules_cover(self.rules_of(subject, namespace), granted):
            return
        groups = ", ".join(f'"{group}"' for group in subject.groups)
        raise api_errors.forbidden(
            f"{plural}.{_GROUP}",
            name,
            f'user "{subject.name}" (groups=[{groups}]) is attempting to grant RBAC permissions '
            "not currently held",
        )

    def _binds(self, binding: Json, subject: Subject, namespace: str) -> bool:
        subjects = binding.get("subjects") or ()
        return any(subject_matches(each, subject, namespace) for each in subjects)

    def _bound_rules(self, binding: Json, namespace: str) -> Iterator[Json]:
        reference = binding.get("roleRef") or {}
        name = reference.get("name", "")
        if reference.get("kind") == "ClusterRole":
            record = self._cluster_roles.get(name)
        else:
            record = self._roles.get(f"{namespace}/{name}")
        if record is not None:
            yield from self._own_rules(record.data)

    def _own_rules(self, role: Json, seen: frozenset[str] = frozenset()) -> Iterator[Json]:
        yield from role.get("rules") or ()
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        seen |= {role["metadata"].get("name", "")}
        for selector in selectors:
            chosen = _selector(selector)
            for key, record in self._cluster_roles.items():
                if key not in seen and chosen.matches(record.data["metadata"].get("labels") or {}):
                    yield from self._own_rules(record.data, seen)


def _selector(document: Json) -> Selector:
    return Selector.from_label_selector(msgspec.convert(document, LabelSelector))
