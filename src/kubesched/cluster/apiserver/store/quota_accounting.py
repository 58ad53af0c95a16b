"""Accounting for ResourceQuotas: their usage, and the check of every new object.

Each write adds to or subtracts from the usage in a quota's status. The usage is counted from
all objects only when a quota is created or its spec changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubesched.api.quantity import ZERO, parse_quantity
from kubesched.cluster.apiserver.rules.errors.api_errors import forbidden
from kubesched.cluster.apiserver.rules.resource_quotas import (
    Usage,
    compute_usage,
    describe_excess,
    is_in_scope,
    missing_requirements,
)
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.stored_records import Record, StoredChange

__all__ = ["QuotaAccounting"]

Json = dict[str, Any]


class QuotaAccounting:
    """Checks new objects against quotas and updates the usage of quotas."""

    def __init__(
        self,
        collections: Mapping[str, Collection],
        write: Callable[[Record, Json], None],
    ) -> None:
        """`write` replaces the record of a quota by one with new JSON."""
        self._collections, self._write = collections, write

    def _quotas(self, namespace: str) -> list[Record]:
        quotas = self._collections["resourcequotas"].objects
        if not quotas:
            return []
        return [record for key, record in quotas.items() if key.startswith(f"{namespace}/")]

    def check(self, resource: Resource, namespace: str, document: Json) -> None:
        """Raises ApiError 403 for a new object that a quota does not allow."""
        name = document["metadata"].get("name", "")
        for record in self._quotas(namespace):
            if not is_in_scope(record.data, resource, document):
                continue
            if resource.group_resource == "pods" and (
                text := missing_requirements(record.data, document)
            ):
                quota = record.data["metadata"]["name"]
                raise forbidden(
                    resource.group_resource, name, f"failed quota: {quota}: must specify {text}"
                )
            if text := describe_excess(record.data, compute_usage(resource, document)):
                raise forbidden(resource.group_resource, name, text)

    def account(self, resource: Resource, change: StoredChange) -> None:
        """Update the quotas of a namespace after a write."""
        data = change.record.data
        namespace = data["metadata"].get("namespace")
        if not namespace:
            return
        for record in self._quotas(namespace):
            if record is change.record:
                before = change.previous
                if before is None or before.data["spec"] != data["spec"]:
                    self._recount(record, namespace)
                continue
            new = None if change.type == "DELETED" else data
            old = None if change.previous is None else change.previous.data
            self._add_difference(record, resource, new, old)

    def _add_difference(
        self, record: Record, resource: Resource, new: Json | None, old: Json | None
    ) -> None:
        """Add the usage of the new object to a quota and subtract that of the old one."""
        quota = record.data
        hard = quota["spec"].get("hard", {})
        used = quota.get("status", {}).get("used", {})
        delta: Usage = {}
        for document, adds in ((new, True), (old, False)):
            if document is None or not is_in_scope(quota, resource, document):
                continue
            for name, amount in compute_usage(resource, document).items():
                if name in hard:
                    change = amount if adds else -amount
                    delta[name] = delta.get(name, ZERO) + change
        changed = {name: amount for name, amount in delta.items() if not amount.is_zero}
        if changed:
            total = dict(used)
            for name, amount in changed.items():
                total[name] = str(parse_quantity(used.get(name, "0")) + amount)
            self._write(record, {**quota, "status": {**quota.get("status", {}), "used": total}})

    def recount(self) -> None:
        """Count the usage of all quotas again, and correct the statuses that differ."""
        for record in list(self._collections["resourcequotas"].objects.values()):
            self._recount(record, record.data["metadata"]["namespace"])

    def _recount(self, record: Record, namespace: str) -> None:
        quota = record.data
        hard = quota["spec"].get("hard", {})
        total: Usage = dict.fromkeys(hard, ZERO)
        for resource, document in self._objects_in(namespace):
            if is_in_scope(quota, resource, document):
                for name, amount in compute_usage(resource, document).items():
                    if name in total:
                        total[name] += amount
        used = {name: str(amount) for name, amount in sorted(total.items())}
        status = {"hard": hard, "used": used}
        if quota.get("status") != status:
            self._write(record, {**quota, "status": status})

    def _objects_in(self, namespace: str) -> Iterable[tuple[Resource, Json]]:
        prefix = f"{namespace}/"
        for collection in self._collections.values():
            if collection.resource.namespaced:
                for key, record in collection.objects.items():
                    if key.startswith(prefix):
                        yield collection.resource, record.data
