"""Conversion of recorded HTTP requests to calls of the store."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import yaml

from kubesched.api import ApiError
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.cluster.apiserver.store.wire_form import status_body, wire_form

PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}


class Target(NamedTuple):
    resource: Resource
    namespace: str | None
    name: str
    subresource: str


def parse_path(store: Store, path: str) -> Target:
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    else:
        group, version, rest = parts[1], parts[2], parts[3:]
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    rest += [""] * (3 - len(rest))
    resource = store.catalog.by_url(group, version, rest[0])
    return Target(resource, namespace, rest[1], rest[2])


def _query(text: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(text, keep_blank_values=True).items()}


class WireAdapter:
    """Handles requests and returns a status code and a JSON body."""

    def __init__(self, store: Store, now_ns: int = 0) -> None:
        self.store = store
        self.now_ns = now_ns

    def answer(self, request: dict[str, Any]) -> tuple[int, Any]:
        try:
            return self._answer(request)
        except ApiError as error:
            return error.code, status_body(error.status)

    def watch(self, path: str) -> tuple[int, Any]:
        """Return the available events without waiting for more."""
        url = urlsplit(path)
        query = {
            key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()
        }
        target = parse_path(self.store, url.path)
        try:
            watcher = self.store.watch(
                target.resource,
                target.namespace,
                resource_version=query.get("resourceVersion", ""),
                label_selector=query.get("labelSelector", ""),
                field_selector=query.get("fieldSelector", ""),
            )
        except ApiError as error:
            return error.code, status_body(error.status)
        return 200, [
            {"type": seen.type, "object": _shown(seen.record)}
            for seen in watcher.read()
            if seen.record is not None
        ]

    def _answer(self, request: dict[str, Any]) -> tuple[int, Any]:
        url = urlsplit(request["path"])
        query = {
            key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()
        }
        target = parse_path(self.store, url.path)
        body, content = request.get("body"), request.get("headers", {}).get("Content-Type", "")
        if content == "application/yaml":
            body = yaml.safe_load(body)
        method = request["method"]
        if target.subresource == "binding":
            return self._bind(target, body)
        if method == "POST":
            dry_run = query.get("dryRun") == "All"
            record = self.store.create(
                target.resource, target.namespace, body, self.now_ns, dry_run=dry_run
            )
            return 201, _shown(record)
        if method == "GET":
            return 200, self._get(target, query)
        if method == "PUT":
            record = self.store.update(
                target.resource,
                target.namespace,
                target.name,
                body,
                self.now_ns,
                subresource=target.subresource,
            )
            return 200, _shown(record)
        if method == "PATCH":
            record = self.store.patch(
                target.resource,
                target.namespace,
                target.name,
                body,
                self.now_ns,
                patch_type=PATCHES[content],
                subresource=target.subresource,
            )
            return 200, _shown(record)
        assert method == "DELETE"
        return 200, self._delete(target, query, body or {})

    def _bind(self, target: Target, body: dict[str, Any]) -> tuple[int, Any]:
        self.store.bind(
            target.namespace or "",
            target.name,
            body["metadata"].get("uid", ""),
            body["target"]["name"],
            self.now_ns,
        )
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return 201, {**success, "code": 201}

    def _get(self, target: Target, query: dict[str, str]) -> Any:
        if target.name:
            return _shown(self.store.get(target.resource, target.namespace, target.name))
        page = self.store.list(
            target.resource,
            target.namespace,
            label_selector=query.get("labelSelector", ""),
            field_selector=query.get("fieldSelector", ""),
            limit=int(query.get("limit", "0")),
            continue_token=query.get("continue", ""),
            resource_version=query.get("resourceVersion", ""),
        )
        return _list(target.resource, page)

    def _delete(self, target: Target, query: dict[str, str], options: dict[str, Any]) -> Any:
        grace = options.get("gracePeriodSeconds")
        if grace is None and "gracePeriodSeconds" in query:
            grace = int(query["gracePeriodSeconds"])
        if not target.name:
            page = self.store.delete_collection(
                target.resource,
                target.namespace,
                self.now_ns,
                label_selector=query.get("labelSelector", ""),
                field_selector=query.get("fieldSelector", ""),
                grace_period_seconds=grace,
            )
            return _list(target.resource, page)
        preconditions = options.get("preconditions", {})
        deletion = self.store.delete(
            target.resource,
            target.namespace,
            target.name,
            self.now_ns,
            uid=preconditions.get("uid", ""),
            resource_version=preconditions.get("resourceVersion", ""),
            grace_period_seconds=grace,
        )
        return _shown(deletion.record)


def _shown(record: Record) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(record.encoded)
    return shown


def _list(resource: Resource, page: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    items = []
    for record in page.records:
        shown = wire_form(resource, record.data)
        items.append({k: v for k, v in shown.items() if k not in ("kind", "apiVersion")})
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "items": items,
    }
