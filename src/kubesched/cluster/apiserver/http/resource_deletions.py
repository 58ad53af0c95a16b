"""Deletions of resources: one object, or all that a list returns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from kubesched.cluster.apiserver.http.query_parameters import (
    is_dry_run,
    parse_grace_period,
    parse_list_options,
    parse_propagation_policy,
)
from kubesched.cluster.apiserver.http.request_bodies import read_options
from kubesched.cluster.apiserver.http.resource_requests import SUCCESS, ResourceRequest
from kubesched.cluster.apiserver.http.response_rendering import json_answer
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.store import custom_resource_definitions
from kubesched.cluster.apiserver.store.committed_objects import Deletion
from kubesched.cluster.apiserver.store.custom_resource_definitions import CUSTOM_RESOURCE_DEFINITION
from kubesched.cluster.apiserver.store.definition_deletion import hold_for_instances
from kubesched.cluster.apiserver.store.needed_calls import CallsNeededError, WebhookCall
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.orphaning import orphan_dependents
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.foundation.http.http_messages import Response

__all__ = ["ResourceDeletions"]

Json = dict[str, Any]

# Admission of the reference refuses to delete them.
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
# The response to a deletion of these contains the object, that of others a Status.
_SHOWN_WHEN_GONE = frozenset({"pods", "persistentvolumeclaims", "persistentvolumes", "services"})


class ResourceDeletions:
    """Handles the requests that delete objects."""

    def __init__(self, store: Store, now_ns: Callable[[], int]) -> None:
        self._store = store
        self._now_ns = now_ns

    def delete(self, call: ResourceRequest) -> Response:
        rendering = call.rendering(self._now_ns)
        options = read_options(call.http)
        deletion = self.remove(call, options)
        if call.resource is CUSTOM_RESOURCE_DEFINITION:
            data = deletion.record.data
            custom_resource_definitions.sync_definition(self._store, data, self._now_ns())
        if deletion.gone and call.resource.plural not in _SHOWN_WHEN_GONE:
            return json_answer(200, {**SUCCESS, "details": _details(deletion.record)})
        return rendering.object(deletion.record)

    def remove(self, call: ResourceRequest, options: Json) -> Deletion:
        resource, name = call.resource, call.target.name
        if resource.kind == "Namespace" and not resource.group and name in _IMMORTAL:
            raise api_errors.forbidden("namespaces", name, "this namespace may not be deleted")
        preconditions = options.get("preconditions") or {}
        dry_run = is_dry_run(call.http, options)
        policy = (
            parse_propagation_policy(call.http, options)
            or call.resource.strategy.default_propagation
        )
        uid = preconditions.get("uid") or ""
        version = preconditions.get("resourceVersion") or ""
        if call.resource is CUSTOM_RESOURCE_DEFINITION and not dry_run:
            self._store.delete(
                call.resource,
                None,
                name,
                self._now_ns(),
                uid=uid,
                resource_version=version,
                dry_run=True,
            )
            hold_for_instances(self._store, name, self._now_ns())
            version = ""  # has been checked, and the write above has changed it
        if policy == "Orphan" and not dry_run:
            self.review_deletion(call)
            owner = self._store.get(call.resource, call.target.namespace, call.target.name)
            orphan_dependents(self._store, owner.data["metadata"]["uid"], self._now_ns())
        return self._store.delete(
            call.resource,
            call.target.namespace,
            call.target.name,
            self._now_ns(),
            uid=uid,
            resource_version=version,
            grace_period_seconds=parse_grace_period(call.http, options),
            propagation=policy,
            dry_run=dry_run,
        )

    def review_deletion(self, call: ResourceRequest) -> None:
        """Run admission of a deletion before other objects are changed for it. Raises ApiError."""
        admission = self._store.admission
        if admission is not None and admission.has_rules:
            target = call.target
            self._store.delete(
                call.resource, target.namespace, target.name, self._now_ns(), dry_run=True
            )

    def delete_collection(self, call: ResourceRequest) -> Response:
        rendering = call.rendering(self._now_ns)
        selected, options = parse_list_options(call.http), read_options(call.http)
        policy = (
            parse_propagation_policy(call.http, options)
            or call.resource.strategy.default_propagation
        )
        now_ns = self._now_ns()
        listed = functools.partial(
            self._store.list,
            call.resource,
            call.target.namespace,
            label_selector=selected.label_selector,
            field_selector=selected.field_selector,
        )
        if is_dry_run(call.http, options):
            return rendering.page(listed())
        self._review_deletions(call, listed().records)
        if policy == "Orphan":
            for record in listed().records:
                orphan_dependents(self._store, record.data["metadata"]["uid"], now_ns)
        if call.resource is CUSTOM_RESOURCE_DEFINITION:
            for record in listed().records:
                hold_for_instances(self._store, record.data["metadata"]["name"], now_ns)
        page = self._store.delete_collection(
            call.resource,
            call.target.namespace,
            now_ns,
            label_selector=selected.label_selector,
            field_selector=selected.field_selector,
            grace_period_seconds=parse_grace_period(call.http, options),
            propagation=policy,
        )
        if call.resource is CUSTOM_RESOURCE_DEFINITION:
            for record in page.records:
                custom_resource_definitions.sync_definition(self._store, record.data, now_ns)
        return rendering.page(page)

    def _review_deletions(self, call: ResourceRequest, records: Sequence[Record]) -> None:
        """Run admission of the deletion of several objects. Raises ApiError."""
        admission = self._store.admission
        if admission is None or not admission.has_rules:
            return
        needed: list[WebhookCall] = []
        for record in records:
            metadata = record.data["metadata"]
            try:
                self._store.delete(
                    call.resource,
                    metadata.get("namespace"),
                    metadata["name"],
                    self._now_ns(),
                    dry_run=True,
                )
            except CallsNeededError as calls:
                needed += calls.calls  # all webhooks are called at the same time
        if needed:
            raise CallsNeededError(needed)


def _details(record: Record) -> Json:
    resource, metadata = record.resource, record.data["metadata"]
    details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural}
    shown = {key: value for key, value in details.items() if value}
    return {**shown, "uid": metadata["uid"]}
