"""An API server without sockets for requests with arbitrary content."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.http.served_watch import ServedWatch
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.foundation.http.http_messages import Headers, Query, Request, Response
from kubesched.foundation.util.clock import ManualClock

__all__ = ["KINDS", "Service"]

JSON = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NOW_NS = 1_800_000_000 * 10**9


def kinds() -> dict[str, Resource]:
    """Return the resources with a type, by name, each kind once."""
    found: dict[str, Resource] = {}
    for resource in Store(random.Random(0)).catalog.all():
        if resource.type is not None:
            found.setdefault(resource.kind, resource)
    return found


KINDS = kinds()


class Service:
    """Sends requests to the server; an exception fails the test."""

    def __init__(self) -> None:
        self.store = Store(random.Random(0), now_ns=NOW_NS)
        self._service = ApiService(self.store, ManualClock(now_ns=NOW_NS))

    def ask(
        self,
        method: str,
        path: str,
        body: Any = b"",
        *,
        content_type: str = JSON,
        accept: str = JSON,
        query: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send a request, and return status and document of the response."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {"content-type": content_type, "accept": accept}
        request = Request(
            method=method,
            target=path,
            path=path,
            query=Query((query or {}).items()),
            headers=Headers(headers.items()),
            body=data,
        )
        answer = self._service.answer(request)
        if isinstance(answer, ServedWatch):
            seen = answer.watcher.read()
            return 200, answer.encode([each for each in seen if each.record is not None])
        assert isinstance(answer, Response)
        # The reference has no other code for these four client errors.
        is_known = answer.status in (501, 504) or any(
            known in answer.body
            for known in (
                b"resourceVersion should not be set",
                b"resourceVersion: Invalid value: ",
                b"field not declared in schema",
                b'"target.name: Required value"',
            )
        )
        assert answer.status < 500 or is_known, answer.body
        assert answer.body or method == "HEAD" or answer.status == 204
        is_json = answer.body and answer.content_type.startswith(JSON)
        return answer.status, msgspec.json.decode(answer.body) if is_json else answer.body

    def path(self, resource: Resource, name: str = "", subresource: str = "") -> str:
        group = f"/apis/{resource.group}" if resource.group else "/api"
        place = "/namespaces/default" if resource.namespaced else ""
        parts = [f"{group}/{resource.version}{place}/{resource.plural}", name, subresource]
        return "/".join(part for part in parts if part)
