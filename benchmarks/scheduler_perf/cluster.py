"""The cluster of a workload: its steps write objects through the rules of the store.

Documents are passed to the store as an HTTP server does, validated and defaulted, but without a
network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.scheduler_perf.templates import Json
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.foundation.util.clock import Clock

__all__ = ["Cluster", "MissingFeatureError", "with_metadata"]

_NOT_FOUND = 404
_CURRENT_VERSIONS = {
    "DeviceClass": "resource.k8s.io/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceClaimTemplate": "resource.k8s.io/v1",
    "ResourceSlice": "resource.k8s.io/v1",
    "DeviceTaintRule": "resource.k8s.io/v1beta2",
}


class MissingFeatureError(Exception):
    """A step needs a feature that the embedded server lacks."""


class Cluster:
    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._namespaces: set[str] = set()
        self._priority_classes: set[str] = set()

    def create(self, document: Json, namespace: str = "") -> Json:
        """Store a new object and return it as stored."""
        if document["kind"] == "Pod" and "priority" in document["spec"]:
            document = self._with_priority_class(document)
        resource = self._resource(document)
        document = {**document, "apiVersion": resource.api_version}
        at = namespace if resource.namespaced else None
        return self.store.create(resource, at, document, self._clock.now_ns()).data

    def _with_priority_class(self, pod: Json) -> Json:
        """The pod with a class of its priority: the reference's runner has no such admission."""
        value = pod["spec"]["priority"]
        name = f"priority-{value}"
        if name not in self._priority_classes:
            self._priority_classes.add(name)
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            self.create({**kind, "metadata": {"name": name}, "value": value})
        return {**pod, "spec": {**pod["spec"], "priorityClassName": name}}

    def replace(self, document: Json, namespace: str, subresources: tuple[str, ...]) -> None:
        """Replace the object with the same name.

        Without subresources its status is written too: templates of nodes change the allocatable
        amounts, which a server accepts in the status only.
        """
        resource = self._resource(document)
        at, name = namespace if resource.namespaced else None, document["metadata"]["name"]
        if not subresources and resource.strategy.has_status and "status" in document:
            subresources = ("", "status")
        for subresource in subresources or ("",):
            self._replace(resource, at, name, document, subresource)

    def _replace(
        self, resource: Resource, namespace: str | None, name: str, document: Json, subresource: str
    ) -> None:
        if not subresource and document["kind"] == "Pod":
            old = self.store.get(resource, namespace, name).data
            document = _with_tolerations(document, old["spec"].get("tolerations", []))
        try:
            self.store.update(
                resource,
                namespace,
                name,
                document,
                self._clock.now_ns(),
                subresource=subresource,
            )
        except ApiError as error:
            if subresource and error.code == _NOT_FOUND:
                raise MissingFeatureError(f"{resource.plural}/{subresource}") from error
            raise

    def delete(self, document: Json, namespace: str = "") -> None:
        """Delete an object, if it is still there; a pod at once, since no kubelet ends it."""
        resource = self._resource(document)
        at = namespace if resource.namespaced else None
        try:
            self.store.delete(
                resource,
                at,
                document["metadata"]["name"],
                self._clock.now_ns(),
                grace_period_seconds=0,
            )
        except ApiError as error:
            if error.code != _NOT_FOUND:
                raise

    def delete_pod(self, name: str, namespace: str) -> None:
        self.delete({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}, namespace)

    def ensure_namespace(self, name: str, document: Json | None = None) -> None:
        """Create a namespace, unless it was created here before."""
        if name in self._namespaces or self.store.find("namespaces", name) is not None:
            return
        self._namespaces.add(name)
        self.create(with_metadata(document or {"apiVersion": "v1", "kind": "Namespace"}, name=name))

    def records(self, api_version: str, kind: str, namespace: str | None = None) -> list[Record]:
        resource = self._resource({"apiVersion": api_version, "kind": kind})
        return list(self.store.list(resource, namespace).records)

    def _resource(self, document: Mapping[str, Any]) -> Resource:
        version, kind = document["apiVersion"], document["kind"]
        found = self.store.catalog.by_manifest(version, kind)
        if found is None:
            # Files may use older API versions; the fields that they use did not change.
            found = self.store.catalog.by_manifest(_CURRENT_VERSIONS.get(kind, version), kind)
        if found is None:
            raise MissingFeatureError(f"{document['kind']} of {document['apiVersion']}")
        return found


def _with_tolerations(pod: Json, added: list[Json]) -> Json:
    """Return the pod with the tolerations of admission, which an update may not remove."""
    own = pod["spec"].get("tolerations", [])
    missing = [toleration for toleration in added if toleration not in own]
    return {**pod, "spec": {**pod["spec"], "tolerations": own + missing}}


def with_metadata(document: Json, **changes: Any) -> Json:
    return {**document, "metadata": {**document.get("metadata", {}), **changes}}
