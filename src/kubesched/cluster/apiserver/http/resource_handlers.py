"""Requests about resources: every verb, over every resource in the catalog."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.http.kubelet_subresources import (
    KUBELET_SUBRESOURCES,
    refuse_subresource,
)
from kubesched.cluster.apiserver.http.media_types import accepted_form, patch_type
from kubesched.cluster.apiserver.http.object_completion import complete_document
from kubesched.cluster.apiserver.http.query_parameters import (
    ListOptions,
    is_dry_run,
    parse_grace_period,
    parse_list_options,
    parse_propagation_policy,
)
from kubesched.cluster.apiserver.http.request_bodies import (
    field_problems,
    read_applied,
    read_body,
    read_document,
    read_json,
    read_options,
)
from kubesched.cluster.apiserver.http.request_paths import RequestTarget
from kubesched.cluster.apiserver.http.response_rendering import Rendering, encode
from kubesched.cluster.apiserver.http.scale_subresource import make_replicas_patch, make_scale, scale_paths
from kubesched.cluster.apiserver.http.served_watch import ServedWatch
from kubesched.cluster.apiserver.http.service_account_tokens import ServiceAccountTokens
from kubesched.cluster.apiserver.http.users import ADMIN
from kubesched.cluster.apiserver.rules.apply import (
    Manager,
    apply_document,
    is_tracked,
    tracked_document,
)
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.value_limit import check_object
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.rules.patching.patches import PatchError, apply_patch
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store import custom_resource_definitions
from kubesched.cluster.apiserver.store.admission_policies import POLICY, write_type_check
from kubesched.cluster.apiserver.store.custom_resource_definitions import (
    CUSTOM_RESOURCE_DEFINITION,
)
from kubesched.cluster.apiserver.store.object_store import Deletion, Store
from kubesched.cluster.apiserver.store.orphaning import orphan_dependents
from kubesched.cluster.apiserver.store.pod_eviction import admit_eviction
from kubesched.cluster.apiserver.store.preconditions import parse_revision
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.foundation.http.http_messages import JSON, Request, Response
from kubesched.foundation.util.clock import Clock

__all__ = ["ResourceHandlers"]

Json = dict[str, Any]

# Deletion of these answers with the object, of others with a Status.
_SHOWN_WHEN_GONE = frozenset({"pods", "persistentvolumeclaims", "persistentvolumes", "services"})
_GONE = 410
_RBAC = "rbac.authorization.k8s.io"
# Parts that are written as the object is, for the store to know what of it counts.
_OBJECT_PARTS = frozenset({"approval", "ephemeralcontainers", "finalize", "resize", "status"})
_SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


class ResourceHandlers:
    """Turns requests into calls of the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._now_ns = clock.now_ns
        self._pods = store.catalog.by_url("", "v1", "pods")
        self._on_object: dict[str, Callable[[Request, RequestTarget, Resource], Response]] = {
            "GET": self._get,
            "HEAD": self._get,
            "PUT": self._update,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        self._subresources: dict[str, Callable[[Request, RequestTarget, Resource], Response]] = {
            "binding": self._bind,
            "eviction": self._evict,
            "scale": self._scale,
            "token": self._token,
        }
        # Issues tokens of service accounts, if anybody does.
        self.tokens: ServiceAccountTokens | None = None
        # Who sends what is answered next.
        self.requester = ADMIN
        # Asked before a role or a binding is written, with its plural and namespace.
        self.check_grant: Callable[[str, Json, str], None] | None = None

    def answer(self, request: Request, target: RequestTarget) -> Response | ServedWatch:
        """Raises ApiError."""
        if (target.group, target.version, target.plural) == ("", "v1", "bindings"):
            return self._bind(request, target, self._pods)
        resource = self._store.catalog.by_url(target.group, target.version, target.plural)
        if target.namespace is not None and not resource.namespaced:
            raise api_errors.unknown_resource()
        if target.subresource in KUBELET_SUBRESOURCES:
            refuse_subresource(
                self._store, resource, target.namespace, target.name, target.subresource
            )
        if (part := self._subresources.get(target.subresource)) is not None:
            return part(request, target, resource)
        if target.subresource and target.subresource not in _OBJECT_PARTS:
            raise api_errors.unknown_resource()
        if target.name:
            if resource.namespaced and target.namespace is None:
                raise api_errors.unknown_resource()
            return self._one(request, target, resource)
        if request.method in ("GET", "HEAD"):
            return self._list_or_watch(request, target, resource)
        if resource.group_resource == "componentstatuses":
            raise api_errors.method_not_allowed()
        if request.method == "POST" and (target.namespace or not resource.namespaced):
            return self._create(request, target, resource)
        if request.method == "DELETE" and resource.group_resource != "namespaces":
            return self._delete_collection(request, target, resource)
        raise api_errors.method_not_allowed()

    def _one(
        self, request: Request, target: RequestTarget, resource: Resource
    ) -> Response | ServedWatch:
        if request.method in ("GET", "HEAD") and request.query.flag("watch"):
            return self._list_or_watch(request, target, resource)
        handler = self._on_object.get(request.method)
        if handler is None or (target.subresource and request.method == "DELETE"):
            raise api_errors.method_not_allowed()
        return handler(request, target, resource)

    # Reading

    def _get(self, request: Request, target: RequestTarget, resource: Resource) -> Response:
        rendering = self._rendering(request, resource)
        return rendering.object(self._store.get(resource, target.namespace, target.name))

    def _list_or_watch(
        self, request: Request, target: RequestTarget, resource: Resource
    ) -> Response | ServedWatch:
        rendering = self._rendering(request, resource)
        options = parse_list_options(request)
        if target.name:
            by_name = f"metadata.name={target.name}"
            options = msgspec.structs.replace(options, field_selector=by_name)
        if options.watch:
            try:
                return self._watch(target, resource, options, rendering)
            except ApiError as error:
                if error.code != _GONE:
                    raise
                # Who asks for too old a version is told so in the stream, as its first event.
                return Response(200, rendering.error(error.status), rendering.stream_type)
        version = options.resource_version
        if version and not options.continue_token:
            revision = parse_revision(version)
            if revision > self._store.revision:
                raise api_errors.too_new(revision, self._store.revision)
        page = self._store.list(
            resource,
            target.namespace,
            label_selector=options.label_selector,
            field_selector=options.field_selector,
            limit=options.limit,
            continue_token=options.continue_token,
            resource_version=version,
            exact=options.match == "Exact",
        )
        return rendering.page(page)

    def _watch(
        self, target: RequestTarget, resource: Resource, options: ListOptions, rendering: Rendering
    ) -> ServedWatch:
        version = options.resource_version
        if options.initial_events:
            version = ""
        elif options.initial_events is False and version in ("", "0"):
            version = str(self._store.revision)
        watcher = self._store.watch(
            resource,
            target.namespace,
            resource_version=version,
            label_selector=options.label_selector,
            field_selector=options.field_selector,
        )
        return ServedWatch(
            watcher,
            rendering.events(),
            rendering.bookmark,
            lambda: self._store.revision,
            timeout_seconds=options.timeout_seconds or None,
            bookmarks=options.bookmarks,
            error=rendering.error,
            content_type=rendering.stream_type,
            initial_events=bool(options.initial_events),
        )

    # Writing

    def _create(self, request: Request, target: RequestTarget, resource: Resource) -> Response:
        rendering = self._rendering(request, resource)
        document, problems = read_document(request, resource)
        self._check_grant(resource, target, document)
        namespace = target.namespace or ""
        document = complete_document(self._store, resource, namespace, document, self.requester)
        record = self._make(resource, target.namespace, document, dry_run=is_dry_run(request))
        return rendering.object(record, 201, problems)

    def _check_grant(self, resource: Resource, target: RequestTarget, document: Json) -> None:
        """Nobody gives away more than they have. Raises ApiError 403."""
        if self.check_grant is not None and resource.group == _RBAC:
            self.check_grant(resource.plural, document, target.namespace or "")

    def _make(
        self, resource: Resource, namespace: str | None, document: Json, *, dry_run: bool
    ) -> Record:
        record = self._store.create(resource, namespace, document, self._now_ns(), dry_run=dry_run)
        return self._followed(resource, record, dry_run=dry_run)

    def _followed(
        self, resource: Resource, record: Record, *, dry_run: bool, subresource: str = ""
    ) -> Record:
        """What was written; a definition is served from now on, a policy is type-checked."""
        if dry_run:
            return record
        if resource is CUSTOM_RESOURCE_DEFINITION:
            custom_resource_definitions.sync_definition(self._store, record.data, self._now_ns())
        elif resource is POLICY and not subresource:
            return write_type_check(self._store, record, self._now_ns())
        return record

    def _update(self, request: Request, target: RequestTarget, resource: Resource) -> Response:
        rendering = self._rendering(request, resource)
        document, problems = read_document(request, resource)
        _check_identity(document, target)
        self._check_grant(resource, target, document)
        write = functools.partial(
            self._store.update,
            resource,
            target.namespace,
            target.name,
            document,
            self._now_ns(),
            subresource=target.subresource,
        )
        return rendering.object(self._tracked(request, target, resource, write), 200, problems)

    def _patch(self, request: Request, target: RequestTarget, resource: Resource) -> Response:
        rendering = self._rendering(request, resource)
        kind = patch_type(request.headers.get("content-type"), strategic=resource.type is not None)
        if kind == "apply":
            return self._apply(request, target, resource, rendering)
        patch = read_json(request.body, resource.kind)
        problems = () if kind == "json" else field_problems(request, resource, patch)
        if self.check_grant is not None and resource.group == _RBAC:
            tried = self._store.patch(
                resource,
                target.namespace,
                target.name,
                patch,
                self._now_ns(),
                patch_type=kind,
                dry_run=True,
            )
            self._check_grant(resource, target, tried.data)
        write = functools.partial(
            self._store.patch,
            resource,
            target.namespace,
            target.name,
            patch,
            self._now_ns(),
            patch_type=kind,
            subresource=target.subresource,
        )
        return rendering.object(self._tracked(request, target, resource, write), 200, problems)

    def _tracked(
        self,
        request: Request,
        target: RequestTarget,
        resource: Resource,
        write: Callable[..., Record],
    ) -> Record:
        """Write, and keep account of who owns what if somebody has applied the object."""
        dry_run = is_dry_run(request)
        record = self._written(request, target, resource, write, dry_run=dry_run)
        part = target.subresource
        return self._followed(resource, record, dry_run=dry_run, subresource=part)

    def _written(
        self,
        request: Request,
        target: RequestTarget,
        resource: Resource,
        write: Callable[..., Record],
        *,
        dry_run: bool,
    ) -> Record:
        live = self._store.get(resource, target.namespace, target.name).data
        if not is_tracked(live) or resource.from_stored is not None:
            return write(dry_run=dry_run)
        tried = write(dry_run=True).data
        if tried == live:
            return write(dry_run=dry_run)
        now_ns = self._now_ns()
        name = (
            request.query.get("fieldManager") or request.headers.get("user-agent").partition("/")[0]
        )
        manager = Manager(name or "unknown", "Update", resource.api_version, target.subresource)
        document = tracked_document(resource, live, tried, manager, format_timestamp(now_ns))
        return self._store.update(
            resource,
            target.namespace,
            target.name,
            document,
            now_ns,
            subresource=target.subresource,
            dry_run=dry_run,
        )

    def _apply(
        self, request: Request, target: RequestTarget, resource: Resource, rendering: Rendering
    ) -> Response:
        name = request.query.get("fieldManager", "")
        if not name:
            raise api_errors.missing_field_manager()
        applied, problems = read_applied(request, resource)
        _check_identity(applied, target)
        now_ns, dry_run = self._now_ns(), is_dry_run(request)
        manager = Manager(name, "Apply", resource.api_version, target.subresource)
        live = self._store.find_record(resource, target.namespace, target.name)
        if live is None and target.subresource:
            raise api_errors.not_found(resource.group_resource, target.name)
        document = apply_document(
            resource,
            None if live is None else live.data,
            applied,
            manager,
            format_timestamp(now_ns),
            force=request.query.flag("force"),
        )
        check_object(document)
        self._check_grant(resource, target, document)
        if live is None:
            document["metadata"]["name"] = target.name
            record = self._make(resource, target.namespace, document, dry_run=dry_run)
            return rendering.object(record, 201, problems)
        record = self._store.update(
            resource,
            target.namespace,
            target.name,
            document,
            now_ns,
            subresource=target.subresource,
            dry_run=dry_run,
        )
        part = target.subresource
        record = self._followed(resource, record, dry_run=dry_run, subresource=part)
        return rendering.object(record, 200, problems)

    def _delete(self, request: Request, target: RequestTarget, resource: Resource) -> Response:
        rendering = self._rendering(request, resource)
        options = read_options(request)
        deletion = self._remove(request, target, resource, options)
        if resource is CUSTOM_RESOURCE_DEFINITION:
            data = deletion.record.data
            custom_resource_definitions.sync_definition(self._store, data, self._now_ns())
        if deletion.gone and resource.plural not in _SHOWN_WHEN_GONE:
            return Response(200, encode({**_SUCCESS, "details": _details(deletion.record)}), JSON)
        return rendering.object(deletion.record)

    def _remove(
        self, request: Request, target: RequestTarget, resource: Resource, options: Json
    ) -> Deletion:
        preconditions = options.get("preconditions") or {}
        dry_run = is_dry_run(request, options)
        policy = parse_propagation_policy(request, options) or resource.strategy.default_propagation
        if policy == "Orphan" and not dry_run:
            owner = self._store.get(resource, target.namespace, target.name)
            orphan_dependents(self._store, owner.data["metadata"]["uid"], self._now_ns())
        return self._store.delete(
            resource,
            target.namespace,
            target.name,
            self._now_ns(),
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            grace_period_seconds=parse_grace_period(request, options),
            propagation=policy,
            dry_run=dry_run,
        )

    def _delete_collection(
        self, request: Request, target: RequestTarget, resource: Resource
    ) -> Response:
        rendering = self._rendering(request, resource)
        selected, options = parse_list_options(request), read_options(request)
        policy = parse_propagation_policy(request, options) or resource.strategy.default_propagation
        now_ns = self._now_ns()
        listed = functools.partial(
            self._store.list,
            resource,
            target.namespace,
            label_selector=selected.label_selector,
            field_selector=selected.field_selector,
        )
        if is_dry_run(request, options):
            return rendering.page(listed())
        if policy == "Orphan":
            for record in listed().records:
                orphan_dependents(self._store, record.data["metadata"]["uid"], now_ns)
        page = self._store.delete_collection(
            resource,
            target.namespace,
            now_ns,
            label_selector=selected.label_selector,
            field_selector=selected.field_selector,
            grace_period_seconds=parse_grace_period(request, options),
            propagation=policy,
        )
        if resource is CUSTOM_RESOURCE_DEFINITION:
            for record in page.records:
                custom_resource_definitions.sync_definition(self._store, record.data, now_ns)
        return rendering.page(page)

    # Parts of objects

    def _bind(self, request: Request, target: RequestTarget, resource: Resource) -> Response:
        if resource is not self._pods or target.namespace is None:
            raise api_errors.unknown_resource()
        if request.method != "POST":
            raise api_errors.method_not_allowed()
        body = read_body(request, "Binding")
        try:
            binding = msgspec.convert(body, _Binding)
        except msgspec.ValidationError as exc:
            text = f'Binding in version "v1" cannot be handled as a Binding: {exc}'
            raise api_errors.bad_request(text) from exc
        name = target.name or binding.metadata.name
        if is_dry_run(request):
            self._store.get(self._pods, target.namespace, name)
        else:
            uid, node = binding.metadata.uid, binding.target.name
            self._store.bind(target.namespace, name, uid, node, self._now_ns())
        return Response(201, encode({**_SUCCESS, "code": 201}), JSON)

    def _evict(self, request: Request, target: RequestTarget, resource: Resource) -> Response:
        if resource is not self._pods or target.namespace is None:
            raise api_errors.unknown_resource()
        if request.method != "POST":
            raise api_errors.method_not_allowed()
        body = read_body(request, "Eviction")
        options = body.get("deleteOptions") if isinstance(body, dict) else None
        dry_run = is_dry_run(request, options or {})
        admit_eviction(self._store, target.namespace, target.name, self._now_ns(), dry_run=dry_run)
        self._remove(request, target, resource, options or {})
        return Response(201, encode({**_SUCCESS, "code": 201}), JSON)

    def _scale(self, request: Request, target: RequestTarget, resource: Resource) -> Response:
        paths = scale_paths(resource)
        if paths is None or (resource.namespaced and not target.namespace):
            raise api_errors.unknown_resource()
        record = self._store.get(resource, target.namespace, target.name)
        if request.method in ("PUT", "PATCH"):
            if request.method == "PUT":
                changed = read_body(request, "Scale")
            else:
                changed = read_json(request.body, "Scale")
                kind = patch_type(request.headers.get("content-type"), strategic=True)
                changed = _patched_scale(make_scale(record, paths), changed, kind)
            record = self._store.patch(
                resource,
                target.namespace,
                target.name,
                make_replicas_patch(changed, record, paths),
                self._now_ns(),
                patch_type="merge",
                dry_run=is_dry_run(request),
            )
        elif request.method not in ("GET", "HEAD"):
            raise api_errors.method_not_allowed()
        return Response(200, encode(make_scale(record, paths)), JSON)

    def _token(self, request: Request, target: RequestTarget, resource: Resource) -> Response:
        if resource.group_resource != "serviceaccounts" or target.namespace is None:
            raise api_errors.unknown_resource()
        if request.method != "POST":
            raise api_errors.method_not_allowed()
        if self.tokens is None:
            raise api_errors.not_possible("this server issues no tokens")
        body = read_body(request, "TokenRequest")
        if not isinstance(body, dict) or not isinstance(body.get("spec", {}), dict):
            raise api_errors.bad_request("the body is no TokenRequest")
        return Response(201, encode(self.tokens.request(target.namespace, target.name, body)), JSON)

    def _rendering(self, request: Request, resource: Resource) -> Rendering:
        form = accepted_form(request.headers.get("accept"))
        included = request.query.get("includeObject", "")
        return Rendering(resource, form, self._now_ns, included=included)


class _Named(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Binding(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)
    target: _Named = msgspec.field(default_factory=_Named)


def _details(record: Record) -> Json:
    resource, metadata = record.resource, record.data["metadata"]
    details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural}
    shown = {key: value for key, value in details.items() if value}
    return {**shown, "uid": metadata["uid"]}


def _patched_scale(scale: Json, patch: Any, kind: str) -> Json:
    try:
        return apply_patch(scale, patch, kind)
    except PatchError as exc:
        raise api_errors.bad_patch(str(exc)) from exc


def _check_identity(document: Json, target: RequestTarget) -> None:
    """Refuse an object that says it is another one than the path leads to."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return
    name = metadata.get("name")
    if name and name != target.name:
        raise api_errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    namespace = metadata.get("namespace")
    if namespace and target.namespace and namespace != target.namespace:
        raise api_errors.bad_request(
            f"the namespace of the object ({namespace}) does not match the namespace on the "
            f"request ({target.namespace})"
        )
