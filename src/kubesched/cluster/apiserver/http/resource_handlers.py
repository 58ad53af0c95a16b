"""Requests for resources: selects the handler of every verb, for every resource in the catalog.

The handlers are in `resource_reads.py`, `resource_writes.py`, `resource_deletions.py` and
`resource_subresources.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.cluster.apiserver.http.pod_processes import PodProcesses
from kubesched.cluster.apiserver.http.request_paths import RequestTarget
from kubesched.cluster.apiserver.http.resource_deletions import ResourceDeletions
from kubesched.cluster.apiserver.http.resource_reads import ResourceReads
from kubesched.cluster.apiserver.http.resource_requests import ResourceRequest
from kubesched.cluster.apiserver.http.resource_subresources import ResourceSubresources
from kubesched.cluster.apiserver.http.resource_writes import ResourceWrites
from kubesched.cluster.apiserver.http.response_rendering import with_warning
from kubesched.cluster.apiserver.http.served_watch import ServedWatch
from kubesched.cluster.apiserver.http.service_account_tokens import ServiceAccountTokens
from kubesched.cluster.apiserver.http.users import Requester, Users
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.store.access_rules import AccessRules
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.http.http_messages import Request, Response
from kubesched.foundation.util.clock import Clock

__all__ = ["ResourceHandlers"]

# Subresources that are written like the object. The store ignores the other parts of the body.
_OBJECT_PARTS = frozenset({"approval", "ephemeralcontainers", "finalize", "resize", "status"})


class ResourceHandlers:
    """Selects the handler of a request for a resource, by its path and its method."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        users: Users | None = None,
        tokens: ServiceAccountTokens | None = None,
        rules: AccessRules | None = None,
    ) -> None:
        """`users` authorizes, `tokens` issues tokens, `rules` limits what users may grant."""
        self._store = store
        self._reads = ResourceReads(store, clock.now_ns)
        self._writes = ResourceWrites(store, clock.now_ns, users or Users(), rules)
        self._deletions = ResourceDeletions(store, clock.now_ns)
        self._subresources = ResourceSubresources(
            store, clock, self._writes, self._deletions, tokens
        )
        self._pods = store.catalog.by_url("", "v1", "pods")
        self._object_handlers: dict[str, Callable[[ResourceRequest], Response]] = {
            "GET": self._reads.get,
            "HEAD": self._reads.get,
            "PUT": self._writes.update,
            "PATCH": self._writes.patch,
            "DELETE": self._deletions.delete,
        }

    def show_processes(self, processes: PodProcesses) -> None:
        """Serve logs of containers, and commands in them, from `processes`."""
        self._subresources.processes = processes

    def answer(
        self, request: Request, target: RequestTarget, requester: Requester
    ) -> Response | ServedWatch:
        """Handle a request of a user. Raises ApiError."""
        if (target.group, target.version, target.plural) == ("", "v1", "bindings"):
            return self._subresources.bind(ResourceRequest(request, target, self._pods, requester))
        resource = self._store.catalog.by_url(target.group, target.version, target.plural)
        if target.namespace is not None and not resource.namespaced:
            raise api_errors.unknown_resource()
        call = ResourceRequest(request, target, resource, requester)
        answer = self._answer_call(call)
        if resource.deprecation and isinstance(answer, Response):
            return with_warning(answer, resource.deprecation)
        return answer

    def _answer_call(self, call: ResourceRequest) -> Response | ServedWatch:
        target = call.target
        if target.subresource and target.subresource not in _OBJECT_PARTS:
            return self._subresources.answer(call)
        return self._answer_object(call) if target.name else self._answer_collection(call)

    def _answer_object(self, call: ResourceRequest) -> Response | ServedWatch:
        method = call.http.method
        if call.resource.namespaced and call.target.namespace is None:
            raise api_errors.unknown_resource()
        if method in ("GET", "HEAD") and call.http.query.flag("watch"):
            return self._reads.list_or_watch(call)
        handler = self._object_handlers.get(method)
        if handler is None or (call.target.subresource and method == "DELETE"):
            raise api_errors.method_not_allowed()
        return handler(call)

    def _answer_collection(self, call: ResourceRequest) -> Response | ServedWatch:
        method, resource = call.http.method, call.resource
        if method in ("GET", "HEAD"):
            return self._reads.list_or_watch(call)
        if resource.group_resource == "componentstatuses":
            raise api_errors.method_not_allowed()
        if method in ("POST", "DELETE") and resource.namespaced and not call.target.namespace:
            # Only lists and watches extend over all namespaces.
            is_custom = resource.type is None
            raise api_errors.unknown_resource() if is_custom else api_errors.method_not_allowed()
        if method == "POST":
            return self._writes.create(call)
        if method == "DELETE" and resource.group_resource != "namespaces":
            return self._deletions.delete_collection(call)
        raise api_errors.method_not_allowed()
