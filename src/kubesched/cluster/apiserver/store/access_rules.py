"""Authorization by the roles and bindings that a store holds.

A ClusterRole with an aggregation rule has the rules of the roles it selects; they are put
together when they are asked for, so there is nothing to keep up to date.
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
    covered,
    rule_allows,
    subject_matches,
)
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["AccessRules"]

Json = dict[str, Any]

_GROUP = "rbac.authorization.k8s.io"
_MASTERS = "system:masters"


class AccessRules:
    """Answers what somebody may do, from what is in a store at that moment."""

    def __init__(self, store: Store) -> None:
        def objects(plural: str) -> Any:
            return store.collection(store.catalog.by_url(_GROUP, "v1", plural)).objects

        self._cluster_roles = objects("clusterroles")
        self._cluster_bindings = objects("clusterrolebindings")
        self._roles = objects("roles")
        self._bindings = objects("rolebindings")

    def allows(self, who: Subject, wanted: Attributes) -> bool:
        if _MASTERS in who.groups:
            return True
        return any(rule_allows(rule, wanted) for rule in self.rules_of(who, wanted.namespace))

    def rules_of(self, who: Subject, namespace: str) -> Iterator[Json]:
        """All rules that hold for somebody in a namespace; without one, in the whole cluster."""
        for record in self._cluster_bindings.values():
            if self._is_about(record.data, who, ""):
                yield from self._rules_behind(record.data, "")
        if not namespace:
            return
        prefix = f"{namespace}/"
        for key, record in self._bindings.items():
            if key.startswith(prefix) and self._is_about(record.data, who, namespace):
                yield from self._rules_behind(record.data, namespace)

    def check_grant(self, who: Subject, plural: str, document: Json, namespace: str) -> None:
        """Refuse to let somebody give away more than they have.

        Raises:
            ApiError: 403.
        """
        if _MASTERS in who.groups:
            return
        name = document.get("metadata", {}).get("name", "")
        if plural in ("roles", "clusterroles"):
            allowed = Attributes("escalate", _GROUP, plural, namespace=namespace, name=name)
            given = [*self._own_rules(document)]
        else:
            reference = document.get("roleRef") or {}
            target = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
            bound = reference.get("name", "")
            allowed = Attributes("bind", _GROUP, target, namespace=namespace, name=bound)
            given = [*self._rules_behind(document, namespace)]
        if self.allows(who, allowed) or covered(self.rules_of(who, namespace), given):
            return
        groups = ", ".join(f'"{group}"' for group in who.groups)
        raise api_errors.forbidden(
            f"{plural}.{_GROUP}",
            name,
            f'user "{who.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not '
            "currently held",
        )

    def _is_about(self, binding: Json, who: Subject, namespace: str) -> bool:
        subjects = binding.get("subjects") or ()
        return any(subject_matches(each, who, namespace) for each in subjects)

    def _rules_behind(self, binding: Json, namespace: str) -> Iterator[Json]:
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
