"""A test harness around a store, with short methods for requests."""

from __future__ import annotations

import random
from typing import Any

from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.committed_objects import Deletion
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.stored_records import Record

Json = dict[str, Any]

NOW_NS = 1_800_000_000 * 10**9
NOW = "2027-01-15T08:00:00Z"


def pod(name: str = "p", **spec: Any) -> Json:
    """Return a pod as a user writes it; keyword arguments go into its spec."""
    containers = spec.pop("containers", [{"name": "c", "image": "pause"}])
    metadata: Json = {"name": name}
    for field in ("labels", "annotations", "finalizers", "generateName"):
        if field in spec:
            metadata[field] = spec.pop(field)
    return {"metadata": metadata, "spec": {"containers": containers, **spec}}


def node(name: str = "n", **metadata: Any) -> Json:
    return {
        "metadata": {"name": name, **metadata},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


class Cluster:
    """A store at a fixed time; its methods take the plural names of resources."""

    def __init__(self, **options: Any) -> None:
        self.store = Store(random.Random(1), now_ns=NOW_NS, **options)
        self.now_ns = NOW_NS

    def resource(self, plural: str) -> Resource:
        return next(
            each
            for each in self.store.catalog.all()
            if each.plural == plural and each.to_stored is None
        )

    def _home(self, plural: str, namespace: str) -> tuple[Resource, str | None]:
        resource = self.resource(plural)
        return resource, namespace if resource.namespaced else None

    def create(self, plural: str, body: Json, namespace: str = "default", **options: Any) -> Json:
        resource, home = self._home(plural, namespace)
        return self.store.create(resource, home, body, self.now_ns, **options).data

    def get(self, plural: str, name: str, namespace: str = "default") -> Json:
        return self.store.get(*self._home(plural, namespace), name).data

    def update(self, plural: str, body: Json, namespace: str = "default", **options: Any) -> Json:
        resource, home = self._home(plural, namespace)
        name = body["metadata"]["name"]
        return self.store.update(resource, home, name, body, self.now_ns, **options).data

    def patch(
        self, plural: str, name: str, patch: Any, namespace: str = "default", **options: Any
    ) -> Json:
        resource, home = self._home(plural, namespace)
        return self.store.patch(resource, home, name, patch, self.now_ns, **options).data

    def delete(
        self, plural: str, name: str, namespace: str = "default", **options: Any
    ) -> Deletion:
        resource, home = self._home(plural, namespace)
        return self.store.delete(resource, home, name, self.now_ns, **options)

    def bind(self, name: str, node_name: str, uid: str = "") -> Record:
        return self.store.bind("default", name, uid, node_name, self.now_ns)

    def names(self, plural: str, **options: Any) -> list[str]:
        page = self.store.list(self.resource(plural), **options)
        return [record.data["metadata"]["name"] for record in page.records]
