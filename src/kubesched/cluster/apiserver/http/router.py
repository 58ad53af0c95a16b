"""The API server as a function from a request to a response or a watch.

It has no sockets and no tasks, and it does not wait: a write is complete when its response is
returned. Invalid requests get an error response.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from kubesched.api.access import ApiError
from kubesched.api.fields import FieldSelector
from kubesched.cluster.apiserver.http.access_reviews import REVIEWS, answer_review
from kubesched.cluster.apiserver.http.aggregation import AggregationLayer, ExtensionCaller
from kubesched.cluster.apiserver.http.discovery_documents import AGGREGATED, VERSION, Discovery
from kubesched.cluster.apiserver.http.flow_control import FLOW_CONTROL, FlowControl
from kubesched.cluster.apiserver.http.health_checks import (
    HEALTH_PATHS,
    all_checks,
    health,
    is_health,
)
from kubesched.cluster.apiserver.http.impersonation import impersonated_user
from kubesched.cluster.apiserver.http.media_types import NO_METADATA, accepted_form
from kubesched.cluster.apiserver.http.metrics_api import METRICS, MetricsApi, PodUsage
from kubesched.cluster.apiserver.http.openapi_documents import OpenApi
from kubesched.cluster.apiserver.http.pod_processes import PodProcesses
from kubesched.cluster.apiserver.http.protobuf import PROTOBUF, write_protobuf
from kubesched.cluster.apiserver.http.query_parameters import check_timeout
from kubesched.cluster.apiserver.http.request_bodies import read_body
from kubesched.cluster.apiserver.http.request_metrics import (
    CONTENT_TYPE,
    RequestMetrics,
    health_metrics,
)
from kubesched.cluster.apiserver.http.request_paths import (
    RequestTarget,
    parse_path,
    watch_by_path,
)
from kubesched.cluster.apiserver.http.resource_handlers import ResourceHandlers
from kubesched.cluster.apiserver.http.response_rendering import encode, json_answer, warning_headers
from kubesched.cluster.apiserver.http.served_watch import ServedWatch
from kubesched.cluster.apiserver.http.service_account_tokens import ServiceAccountTokens
from kubesched.cluster.apiserver.http.system_objects import SystemObjects
from kubesched.cluster.apiserver.http.users import Attributes, Requester, Users
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.rbac_rules import Subject
from kubesched.cluster.apiserver.store.access_rules import AccessRules
from kubesched.cluster.apiserver.store.admission_policies import enforce_policies
from kubesched.cluster.apiserver.store.custom_resource_definitions import serve_stored_definitions
from kubesched.cluster.apiserver.store.definition_deletion import finish_deletions
from kubesched.cluster.apiserver.store.node_authorization import NODES, node_name_of
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.wire_form import status_body
from kubesched.cluster.apiserver.webhook_calls import WebhookCaller, WebhookCalls
from kubesched.errors import SelectorError
from kubesched.foundation.http.http_messages import JSON, TEXT, Request, Response
from kubesched.foundation.util.clock import Clock

__all__ = ["ApiService", "refused"]

Json = dict[str, Any]

_PAGE_NOT_FOUND = b"404 page not found\n"
_RBAC = "rbac.authorization.k8s.io"
_UNKNOWN = 401
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_OPENAPI = "/openapi/v3"
_OPENID = "/.well-known/openid-configuration"
_KEY_SET = "application/jwk-set+json"
_OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_AGGREGATED_PARTS = {"g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"}


def refused(error: ApiError) -> Response:
    """Return the response for an API error."""
    headers = {}
    if error.status.details is not None and error.status.details.retry_after_seconds:
        headers["Retry-After"] = str(error.status.details.retry_after_seconds)
    return json_answer(error.code, status_body(error.status), headers)


class ApiService:
    """Handles requests from a store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        users: Users | None = None,
        rbac: bool = False,
        token_key: bytes = b"",
    ) -> None:
        """Without `users` every request is one of the administrator. `rbac` enables roles.

        `token_key` signs tokens of service accounts. Without one, a random key is used, so the
        tokens become invalid when the process ends.
        """
        self.store = store
        # Handles requests for metrics; None if this server has no nodes.
        self._usage: MetricsApi | None = None
        # Forwards requests to other API servers; None if there is no client that can.
        self._aggregation: AggregationLayer | None = None
        # Repeats writes that need webhooks; None if there is no client that can call them.
        self.webhook_calls: WebhookCalls | None = None
        # The address of this server, which discovery shows to clients.
        self.address = ""
        self._users = users or Users()
        self._now_ns = clock.now_ns
        self._discovery = Discovery(store.catalog)
        self._openapi = OpenApi(store.catalog, self._discovery)
        serve_stored_definitions(store)
        finish_deletions(store)
        self._policies = enforce_policies(store)
        self._system = SystemObjects(store, clock.now_ns, self._discovery.group_versions)
        self.tokens = tokens = ServiceAccountTokens(
            store, token_key or secrets.token_bytes(32), clock.now_ns
        )
        self._users.issued = tokens.identify
        self._rules: AccessRules | None = None
        if rbac:
            self._system.provide(_RBAC, "")
            self._users.authorizer = self._rules = AccessRules(store)
        self._resources = ResourceHandlers(
            store, clock, users=self._users, tokens=tokens, rules=self._rules
        )
        self._pages: dict[str, Callable[[Request], Response]] = {
            "/version": lambda _: _json(VERSION),
            "/api": self._core_versions,
            "/apis": self._groups,
            "/": self._paths,
            _OPENAPI: lambda _: _json(self._openapi.index()),
            "/openapi/v2": self._openapi_2,
            _OPENID: lambda _: _json(tokens.discovery(self.address)),
            "/openid/v1/jwks": lambda _: _json(tokens.key.key_set(), _KEY_SET),
            "/metrics": lambda _: Response(200, self._metrics.text().encode(), CONTENT_TYPE),
            "/metrics/slis": lambda _: Response(
                200, health_metrics(all_checks()).encode(), CONTENT_TYPE
            ),
        }
        self._flows = FlowControl(store)
        self._metrics = RequestMetrics(store, self._flows.seats)

    def call_webhooks_with(self, caller: WebhookCaller) -> WebhookCalls:
        """Call webhooks for writes with this client. Without one, webhooks are only stored."""
        self._policies.webhooks.is_active = self.store.conversions.is_active = True
        self.webhook_calls = WebhookCalls(self.store, caller)
        return self.webhook_calls

    def forward_with(self, caller: ExtensionCaller) -> AggregationLayer:
        """Forward requests for the APIServices of other servers with this client."""
        self._aggregation = layer = AggregationLayer(self.store, caller)
        self._discovery.remote = lambda: layer.resources
        return layer

    def show_usage(self, usage: PodUsage) -> None:
        """Serve the metrics of nodes and pods that these functions return."""
        self._usage = MetricsApi(self.store, self._now_ns, usage)
        self._discovery.has_metrics = True

    def show_processes(self, processes: PodProcesses) -> None:
        """Handle requests for logs and commands with these processes."""
        self._resources.show_processes(processes)

    async def complete(self, request: Request) -> Response | ServedWatch:
        """Return the response like `answer`, after calls of webhooks if a write needs them."""
        request = watch_by_path(request)
        answer = await self._completed(request)
        target = parse_path(request.raw_path)
        if self._flows.is_active and isinstance(answer, Response) and answer.status != _UNKNOWN:
            answer = self._classified(request, target, answer)
        if target is not None:
            code = answer.status if isinstance(answer, Response) else 200
            self._metrics.count(_attributes(request, target), target.version, code)
        return answer

    def _classified(
        self, request: Request, target: RequestTarget | None, answer: Response
    ) -> Response:
        """Add the headers that name the flow of a request."""
        if target is not None and target.group == FLOW_CONTROL:
            self._flows.update_statuses(self._now_ns())
        try:
            user = impersonated_user(request, self._authenticate(request), self._users)
        except ApiError:
            return answer
        fields = self._flows.headers(user, _attributes(request, target))
        return msgspec.structs.replace(answer, headers={**answer.headers, **fields})

    async def _completed(self, request: Request) -> Response | ServedWatch:
        if self._aggregation is not None:
            spec = self._aggregation.spec_for(request.raw_path)
            if spec is not None:
                return await self._forwarded(request, self._aggregation, spec)
        calls = self.webhook_calls
        if calls is None or not calls.are_possible:
            return self.answer(request)
        if request.method not in _WRITES and not self.store.conversions.are_possible:
            return self.answer(request)
        try:
            answer = await calls.run(lambda: self._answer(request))
        except ApiError as error:
            return refused(error)
        if isinstance(answer, ServedWatch):
            return msgspec.structs.replace(answer, fetch=calls.fetch)
        return answer

    async def _forwarded(self, request: Request, layer: AggregationLayer, spec: Json) -> Response:
        try:
            user = impersonated_user(request, self._authenticate(request), self._users)
            attributes = _attributes(request, parse_path(request.raw_path))
            self._users.authorize(user, attributes)
            return await layer.forward(request, user, spec)
        except ApiError as error:
            return refused(error)

    def admit(self, request: Request) -> None:
        """Raises ApiError 401 for an unauthenticated request, before the server reads its body."""
        if not _is_open(request.raw_path):
            self._authenticate(request)

    def _authenticate(self, request: Request) -> Requester:
        header = request.headers.get("authorization")
        return self._users.authenticate(header, request.certificates)

    def answer(self, request: Request) -> Response | ServedWatch:
        try:
            return self._answer(watch_by_path(request))
        except ApiError as error:
            return refused(error)

    def _answer(self, request: Request) -> Response | ServedWatch:
        path = request.raw_path
        if "timeout" in request.query:
            check_timeout(request)
        if _is_open(path) and request.method in ("GET", "HEAD"):
            return health(request) if is_health(path) else self._page(request)
        user = self._authenticate(request)
        target = parse_path(path)
        user = impersonated_user(request, user, self._users)
        attributes = _attributes(request, target)
        self._users.authorize(user, attributes)
        if self._rules is not None and NODES in user.groups:
            self._check_node(user, attributes, request)
        if target is None:
            return self._page(request)
        if (target.group, target.plural) in REVIEWS and target.version == "v1":
            return self._review(request, target, user)
        if target.group == METRICS and self._usage is not None:
            return self._usage.answer(request, target)
        if not self._discovery.has_version(target.group, target.version):
            return _not_found()
        with self._policies.webhooks.suspended():
            self._system.provide(target.group, target.plural)
        return self._resource_answer(request, target, user)

    def _resource_answer(
        self, request: Request, target: RequestTarget, user: Requester
    ) -> Response | ServedWatch:
        """Handle a request for resources, with the warnings of policies."""
        if not self._policies.has_rules:
            return self._resources.answer(request, target, user)
        with self._policies.request_by(user.document()) as policy_warnings:
            answer = self._resources.answer(request, target, user)
        if policy_warnings and isinstance(answer, Response):
            headers = {**answer.headers, **warning_headers(policy_warnings)}
            return msgspec.structs.replace(answer, headers=headers)
        return answer

    def _check_node(self, user: Requester, attributes: Attributes, request: Request) -> None:
        """Refuse a write of a node to an object of another node. Raises ApiError 403."""
        node = node_name_of(Subject(user.name, user.all_groups))
        if node and self._rules is not None:
            kind = attributes.plural
            self._rules.nodes.check_write(node, attributes, lambda: read_body(request, kind))

    def _page(self, request: Request) -> Response:
        path = request.raw_path.rstrip("/") or "/"
        if request.method not in ("GET", "HEAD"):
            raise api_errors.method_not_allowed()
        if (page := self._pages.get(path)) is not None:
            return page(request)
        shown = self._discovered(path.strip("/").split("/"))
        if shown is None:
            return _not_found()
        return _json(shown)

    def _discovered(self, parts: list[str]) -> dict[str, Any] | None:
        match parts:
            case ["api", version]:
                return self._discovery.resources("", version)
            case ["apis", group]:
                return self._discovery.group(group)
            case ["apis", group, version]:
                return self._discovery.resources(group, version)
            case ["openapi", "v3", "api", version]:
                group = ""
            case ["openapi", "v3", "apis", group, version]:
                pass
            case _:
                return None
        if not self._discovery.has_version(group, version):
            return None
        return self._openapi.document(group, version)

    def _core_versions(self, request: Request) -> Response:
        if _wants_aggregated(request):
            self._metrics.aggregations += 1
            return _tagged(request, self._discovery.aggregated(core=True), AGGREGATED)
        return _json(self._discovery.core_versions(self.address))

    def _openapi_2(self, request: Request) -> Response:
        if "protobuf" in request.headers.get("accept"):
            return Response(200, self._openapi.version_2(), _OPENAPI_V2)
        return _with_tag(request, self._openapi.version_2_json(), JSON)

    def _groups(self, request: Request) -> Response:
        if _wants_aggregated(request):
            self._metrics.aggregations += 1
            return _tagged(request, self._discovery.aggregated(core=False), AGGREGATED)
        return _json(self._discovery.groups())

    def _paths(self, _request: Request) -> Response:
        versions = [
            f"/apis/{group}/{version}" if group else f"/api/{version}"
            for group, version in self._discovery.group_versions()
        ]
        return _json({"paths": sorted([*self._pages, *HEALTH_PATHS, *versions])})

    def _review(self, request: Request, target: RequestTarget, user: Requester) -> Response:
        kind, namespaced = REVIEWS[target.group, target.plural]
        if target.name or namespaced != (target.namespace is not None):
            raise api_errors.unknown_resource()
        if request.method != "POST":
            raise api_errors.method_not_allowed()
        form = accepted_form(request.headers.get("accept"))
        if form.shape != "object":
            raise api_errors.not_acceptable(NO_METADATA)
        body = read_body(request, kind)
        if not isinstance(body, dict):
            raise api_errors.bad_request(f"the body is no {kind}")
        review = answer_review(target.group, target.plural, body, self._users, user)
        if form.language == "protobuf":
            return Response(201, write_protobuf(review), PROTOBUF)
        return json_answer(201, review)


def _is_open(path: str) -> bool:
    """Whether a path needs no authentication."""
    return path in ("/version", "/version/") or is_health(path)


def _json(document: Any, content_type: str = JSON) -> Response:
    return Response(200, encode(document) + b"\n", content_type)


def _tagged(request: Request, document: Any, content_type: str) -> Response:
    return _with_tag(request, encode(document) + b"\n", content_type)


def _with_tag(request: Request, body: bytes, content_type: str) -> Response:
    """Return a body with a tag, or only the tag if the client has this body already."""
    tag = f'"{hashlib.sha256(body).hexdigest().upper()}"'
    headers = {"ETag": tag, "Vary": "Accept"}
    if request.headers.get("if-none-match") == tag:
        return Response(304, b"", content_type, headers=headers)
    return Response(200, body, content_type, headers=headers)


def _not_found() -> Response:
    return Response(404, _PAGE_NOT_FOUND, TEXT)


def _wants_aggregated(request: Request) -> bool:
    """Whether aggregated discovery is the first supported form in the Accept header."""
    for clause in request.headers.get("accept").split(","):
        parts = {part.strip() for part in clause.split(";")}
        if "application/json" in parts and parts >= _AGGREGATED_PARTS:
            return True
        if parts & {"application/json", "*/*"} and not any(p.startswith("as=") for p in parts):
            return False
    return False


def _attributes(request: Request, target: RequestTarget | None) -> Attributes:
    if target is None:
        return Attributes(request.method.lower().replace("head", "get"), path=request.raw_path)
    if request.method in _VERBS:
        verb = _VERBS[request.method]
    elif request.method == "DELETE":
        verb = "delete" if target.name else "deletecollection"
    elif request.query.flag("watch"):
        verb = "watch"
    else:
        verb = "get" if target.name else "list"
    return Attributes(
        verb,
        target.group,
        target.plural,
        target.subresource,
        target.namespace or "",
        target.name or (_selected_name(request) if verb in ("list", "watch") else ""),
        field_selector="" if target.name else request.query.get("fieldSelector"),
    )


def _selected_name(request: Request) -> str:
    """Return the name to which a list or watch is restricted; rules with names then apply."""
    try:
        terms = FieldSelector.parse(request.query.get("fieldSelector", "")).terms
    except SelectorError:
        return ""  # the handler refuses it
    names = (each.value for each in terms if each.path == "metadata.name" and not each.is_negated)
    return next(names, "")
