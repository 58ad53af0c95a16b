"""API priority and fairness: which FlowSchema and priority level a request belongs to.

Requests are classified, and the response names the classification. Requests are not limited,
because one loop processes them in turn. The objects are created by the first request about their
kind, and requests are classified from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubesched.cluster.apiserver.http.users import Attributes, Requester
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["FLOW_CONTROL", "FlowControl"]

Json = dict[str, Any]

FLOW_CONTROL: Final = "flowcontrol.apiserver.k8s.io"
_ANY = "*"
_SERVICE_ACCOUNT = "system:serviceaccount:"
# The concurrency that all priority levels share, as in the reference: 400 reads and 200 writes.
_TOTAL_SEATS = 600


class FlowControl:
    """Classifies requests by the FlowSchemas in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._resources = [
            store.catalog.by_url(FLOW_CONTROL, "v1", plural)
            for plural in ("flowschemas", "prioritylevelconfigurations")
        ]
        self._schemas, self._levels = map(store.collection, self._resources)
        self._read_at = (-1, -1)
        # FlowSchemas in the order in which they are tried.
        self._ordered: list[Json] = []

    @property
    def is_active(self) -> bool:
        """Whether there is any FlowSchema."""
        return bool(self._schemas.objects)

    def headers(self, user: Requester, attributes: Attributes) -> Mapping[str, str]:
        """Return the headers that name the classification of a request."""
        for schema in self._in_order():
            level = self._level(schema)
            if level is not None and _matches(schema, user, attributes):
                return {
                    "X-Kubernetes-PF-FlowSchema-UID": schema["metadata"]["uid"],
                    "X-Kubernetes-PF-PriorityLevel-UID": level["metadata"]["uid"],
                }
        return {}

    def update_statuses(self, now_ns: int) -> None:
        """Write into each FlowSchema whether its priority level exists."""
        resource = self._resources[0]
        for record in list(self._schemas.objects.values()):
            schema = record.data
            name = schema["spec"]["priorityLevelConfiguration"]["name"]
            exists = self._level(schema) is not None
            stored = schema.get("status", {}).get("conditions") or []
            wanted = "False" if exists else "True"
            if any(c.get("type") == "Dangling" and c.get("status") == wanted for c in stored):
                continue
            found = "it exists" if exists else "there is no such object"
            dangling = {
                "type": "Dangling",
                "status": wanted,
                "reason": "Found" if exists else "NotFound",
                "message": f"This FlowSchema references the PriorityLevelConfiguration object "
                f'named "{name}" and {found}',
                "lastTransitionTime": format_timestamp(now_ns),
            }
            others = [each for each in stored if each.get("type") != "Dangling"]
            body = {**schema, "status": {"conditions": [*others, dangling]}}
            with self._store.own_writes():
                key = schema["metadata"]["name"]
                self._store.update(resource, None, key, body, now_ns, subresource="status")

    def seats(self) -> Iterable[tuple[str, int]]:
        """Yield each limited priority level with its share of the server's concurrency."""
        limited = {
            name: record.data["spec"]["limited"].get("nominalConcurrencyShares", 30)
            for name, record in self._levels.objects.items()
            if record.data["spec"].get("type") == "Limited"
        }
        total = sum(limited.values()) or 1
        for name, shares in limited.items():
            yield name, -(-_TOTAL_SEATS * shares // total)

    def _in_order(self) -> list[Json]:
        position = self._schemas.end, self._levels.end
        if self._read_at != position:
            self._read_at = position
            schemas = [record.data for record in self._schemas.objects.values()]
            self._ordered = sorted(
                schemas,
                key=lambda each: (
                    each["spec"].get("matchingPrecedence", 1000),
                    each["metadata"]["name"],
                ),
            )
        return self._ordered

    def _level(self, schema: Json) -> Json | None:
        name = schema["spec"]["priorityLevelConfiguration"]["name"]
        record = self._levels.objects.get(name)
        return None if record is None else record.data


def _matches(schema: Json, user: Requester, attributes: Attributes) -> bool:
    return any(
        any(_is_subject(subject, user) for subject in rule.get("subjects") or ())
        and _covers(rule, attributes)
        for rule in schema["spec"].get("rules") or ()
    )


def _is_subject(subject: Json, user: Requester) -> bool:
    match subject.get("kind"):
        case "User":
            return (subject.get("user") or {}).get("name") in (_ANY, user.name)
        case "Group":
            name = (subject.get("group") or {}).get("name")
            return name == _ANY or name in user.all_groups
        case "ServiceAccount":
            account = subject.get("serviceAccount") or {}
            prefix = f"{_SERVICE_ACCOUNT}{account.get('namespace')}:"
            if account.get("name") == _ANY:
                return user.name.startswith(prefix)
            return user.name == f"{prefix}{account.get('name')}"
    return False


def _covers(rule: Json, attributes: Attributes) -> bool:
    if not attributes.plural:
        return any(
            _has(each.get("verbs"), attributes.verb)
            and any(_is_path(url, attributes.path) for url in each.get("nonResourceURLs") or ())
            for each in rule.get("nonResourceRules") or ()
        )
    return any(
        _has(each.get("verbs"), attributes.verb)
        and _has(each.get("apiGroups"), attributes.group)
        and _has(each.get("resources"), attributes.resource)
        and _in_scope(each, attributes.namespace)
        for each in rule.get("resourceRules") or ()
    )


def _in_scope(rule: Json, namespace: str) -> bool:
    if not namespace:
        return bool(rule.get("clusterScope"))
    return _has(rule.get("namespaces"), namespace)


def _has(values: Iterable[str] | None, value: str) -> bool:
    return any(each in (_ANY, value) for each in values or ())


def _is_path(pattern: str, path: str) -> bool:
    path = path.partition("?")[0]
    return path.startswith(pattern[:-1]) if pattern.endswith(_ANY) else pattern == path
