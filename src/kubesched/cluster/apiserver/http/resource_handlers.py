"""Handlers for requests to resources: every verb, for every resource in the catalog."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.http.continuation_ages import ContinuationAges
from kubesched.cluster.apiserver.http.kubelet_subresources import (
    KUBELET_SUBRESOURCES,
    refuse_subresource,
)
from kubesched.cluster.apiserver.http.media_types import accepted_form, patch_type
from kubesched.cluster.apiserver.http.object_completion import complete_document
from kubesched.cluster.apiserver.http.pod_processes import (
    PodProcesses,
    answer_attach,
    answer_exec,
    answer_log,
    answer_port_forward,
)
from kubesched.cluster.apiserver.http.query_parameters import (
    ListOptions,
    is_dry_run,
    parse_grace_period,
    parse_list_options,
    parse_propagation_policy,
)
from kubesched.cluster.apiserver.http.request_bodies import (
    check_delete_options,
    field_problems,
    read_applied,
    read_body,
    read_document,
    read_options,
    read_patch,
)
from kubesched.cluster.apiserver.http.request_paths import RequestTarget
from kubesched.cluster.apiserver.http.response_rendering import (
    Rendering,
    json_answer,
    with_warning,
)
from kubesched.cluster.apiserver.http.scale_subresource import (
    make_replicas_patch,
    make_scale,
    scale_paths,
)
from kubesched.cluster.apiserver.http.served_watch import ServedWatch
from kubesched.cluster.apiserver.http.service_account_tokens import ServiceAccountTokens
from kubesched.cluster.apiserver.http.signer_authorization import check_signer_access
from kubesched.cluster.apiserver.http.users import Attributes, Requester, Users
from kubesched.cluster.apiserver.rules.apply import (
    Manager,
    apply_document,
    is_tracked,
    tracked_document,
)
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.value_limit import check_object
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.rules.patching.merge_rules import kind_merge_rules
from kubesched.cluster.apiserver.rules.patching.patches import PatchError, apply_patch
from kubesched.cluster.apiserver.rules.rbac_rules import Subject
from kubesched.cluster.apiserver.rules.request_documents import check_document
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store import custom_resource_definitions
from kubesched.cluster.apiserver.store.access_rules import AccessRules
from kubesched.cluster.apiserver.store.admission_policies import POLICY, write_type_check
from kubesched.cluster.apiserver.store.committed_objects import Deletion
from kubesched.cluster.apiserver.store.custom_resource_definitions import (
    CUSTOM_RESOURCE_DEFINITION,
)
from kubesched.cluster.apiserver.store.definition_deletion import (
    hold_for_instances,
    refuse_creation,
)
from kubesched.cluster.apiserver.store.list_pages import (
    CURRENT,
    Continuation,
    too_old_to_continue,
)
from kubesched.cluster.apiserver.store.needed_calls import CallsNeededError, WebhookCall
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.orphaning import orphan_dependents
from kubesched.cluster.apiserver.store.pod_eviction import admit_eviction
from kubesched.cluster.apiserver.store.preconditions import parse_revision
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.foundation.http.http_messages import Request, Response
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.go_format import quote

__all__ = ["ResourceHandlers"]

Json = dict[str, Any]

# The response to a deletion of these contains the object, that of others a Status.
# Admission of the reference refuses to delete them.
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_SHOWN_WHEN_GONE = frozenset({"pods", "persistentvolumeclaims", "persistentvolumes", "services"})
# The methods of subresources that are handled by the processes of a pod.
_ANSWERED_BY_PROCESSES = {
    "attach": (("GET", "POST"), answer_attach),
    "exec": (("GET", "POST"), answer_exec),
    "log": (("GET",), answer_log),
    "portforward": (("GET", "POST"), answer_port_forward),
}
# What the rows of a table may contain.
_INCLUDED = ("None", "Metadata", "Object", "")
_GONE = 410
_RBAC = "rbac.authorization.k8s.io"
_CERTIFICATE_REQUEST = "CertificateSigningRequest"
# Subresources that are written like the object. The store ignores the other parts of the body.
_OBJECT_PARTS = frozenset({"approval", "ephemeralcontainers", "finalize", "resize", "status"})
_SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


class ResourceRequest(NamedTuple):
    """A request with its resource and its user."""

    http: Request
    target: RequestTarget
    resource: Resource
    requester: Requester


class ResourceHandlers:
    """Handles requests for resources by calls of the store."""

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
        self._users = users or Users()
        self._tokens = tokens
        self._rules = rules
        self._clock = clock
        self._now_ns = clock.now_ns
        # What the containers of pods print; None if this server has no nodes.
        self.processes: PodProcesses | None = None
        self._ages = ContinuationAges()
        self._pods = store.catalog.by_url("", "v1", "pods")
        self._object_handlers: dict[str, Callable[[ResourceRequest], Response]] = {
            "GET": self._get,
            "HEAD": self._get,
            "PUT": self._update,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        self._subresource_handlers: dict[str, Callable[[ResourceRequest], Response]] = {
            "binding": self._bind,
            "eviction": self._evict,
            "scale": self._scale,
            "token": self._token,
        }

    def answer(
        self, request: Request, target: RequestTarget, requester: Requester
    ) -> Response | ServedWatch:
        """Handle a request of a user. Raises ApiError."""
        if (target.group, target.version, target.plural) == ("", "v1", "bindings"):
            return self._bind(ResourceRequest(request, target, self._pods, requester))
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
            return self._answer_subresource(call)
        return self._answer_object(call) if target.name else self._answer_collection(call)

    def _answer_subresource(self, call: ResourceRequest) -> Response:
        target = call.target
        if target.subresource in _ANSWERED_BY_PROCESSES and self.processes is not None:
            return self._process(call, self.processes)
        if target.subresource in KUBELET_SUBRESOURCES:
            refuse_subresource(
                self._store, call.resource, target.namespace, target.name, target.subresource
            )
        handler = self._subresource_handlers.get(target.subresource)
        if handler is None:
            raise api_errors.unknown_resource()
        return handler(call)

    def _process(self, call: ResourceRequest, processes: PodProcesses) -> Response:
        """Handle a request for the log of a container, or for a command in it."""
        target = call.target
        if call.resource is not self._pods or target.namespace is None:
            raise api_errors.unknown_resource()
        methods, answer = _ANSWERED_BY_PROCESSES[target.subresource]
        if call.http.method not in methods:
            raise api_errors.method_not_allowed()
        self._store.get(self._pods, target.namespace, target.name)

        def read_pod() -> Pod | None:
            record = self._store.find_record(self._pods, target.namespace, target.name)
            return None if record is None else record.typed

        return answer(call.http, read_pod, processes, self._clock)

    def _answer_object(self, call: ResourceRequest) -> Response | ServedWatch:
        method = call.http.method
        if call.resource.namespaced and call.target.namespace is None:
            raise api_errors.unknown_resource()
        if method in ("GET", "HEAD") and call.http.query.flag("watch"):
            return self._list_or_watch(call)
        handler = self._object_handlers.get(method)
        if handler is None or (call.target.subresource and method == "DELETE"):
            raise api_errors.method_not_allowed()
        return handler(call)

    def _answer_collection(self, call: ResourceRequest) -> Response | ServedWatch:
        method, resource = call.http.method, call.resource
        if method in ("GET", "HEAD"):
            return self._list_or_watch(call)
        if resource.group_resource == "componentstatuses":
            raise api_errors.method_not_allowed()
        if method in ("POST", "DELETE") and resource.namespaced and not call.target.namespace:
            # Only lists and watches extend over all namespaces.
            is_custom = resource.type is None
            raise api_errors.unknown_resource() if is_custom else api_errors.method_not_allowed()
        if method == "POST":
            return self._create(call)
        if method == "DELETE" and resource.group_resource != "namespaces":
            return self._delete_collection(call)
        raise api_errors.method_not_allowed()

    # Reading

    def _get(self, call: ResourceRequest) -> Response:
        rendering = self._rendering(call.http, call.resource)
        self._check_revision(call.http.query.get("resourceVersion"))
        return rendering.object(
            self._store.get(call.resource, call.target.namespace, call.target.name)
        )

    def _list_or_watch(self, call: ResourceRequest) -> Response | ServedWatch:
        rendering = self._rendering(call.http, call.resource)
        options = parse_list_options(call.http)
        if call.target.name:
            by_name = f"metadata.name={call.target.name}"
            options = msgspec.structs.replace(options, field_selector=by_name)
        if options.watch:
            try:
                return self._watch(call.target, call.resource, options, rendering)
            except ApiError as error:
                if error.code != _GONE:
                    raise
                # An expired version is reported as the first event of the stream.
                return Response(200, rendering.error(error.status), rendering.stream_type)
        version = options.resource_version
        if not options.continue_token:
            self._check_revision(version)
        elif version not in ("", "0"):
            text = "specifying resource version is not allowed when using continue"
            raise api_errors.bad_request(text)
        now_ns = self._now_ns()
        if options.continue_token:
            continuation = Continuation.parse(options.continue_token)
            if self._ages.has_expired(continuation.revision, now_ns) and (
                continuation.revision != CURRENT
            ):
                raise too_old_to_continue(continuation)
        page = self._store.list(
            call.resource,
            call.target.namespace,
            label_selector=options.label_selector,
            field_selector=options.field_selector,
            limit=options.limit,
            continue_token=options.continue_token,
            resource_version=version,
            exact=options.is_exact,
        )
        if page.continue_token:
            self._ages.note(self._store.revision, now_ns)
        return rendering.page(page)

    def _check_revision(self, version: str) -> None:
        """Refuse to read at a revision that does not exist yet (ApiError 504)."""
        if version and (revision := parse_revision(version)) > self._store.revision:
            raise api_errors.too_new(revision, self._store.revision)

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

    def _create(self, call: ResourceRequest) -> Response:
        rendering = self._rendering(call.http, call.resource)
        if call.resource.type is None:
            refuse_creation(self._store, call.resource)
        document, problems = read_document(call.http, call.resource)
        self._check_grant(call, document)
        namespace = call.target.namespace or ""
        document = complete_document(
            self._store, call.resource, namespace, document, call.requester
        )
        record = self._create_object(call, document, dry_run=is_dry_run(call.http))
        return rendering.object(record, 201, problems)

    def _grants_permissions(self, call: ResourceRequest) -> bool:
        return self._rules is not None and call.resource.group == _RBAC

    def _check_grant(self, call: ResourceRequest, document: Json) -> None:
        """Refuse a role or binding with permissions that the requester lacks.

        Raises:
            ApiError: 400, 403 or 404.
        """
        if self._rules is None or not self._grants_permissions(call):
            return
        document = check_document(call.resource, document)
        subject = Subject(call.requester.name, call.requester.all_groups)
        namespace, name = call.target.namespace or "", call.target.name
        record = self._store.find_record(call.resource, namespace, name) if name else None
        old = None if record is None else record.data
        self._rules.check_grant(subject, call.resource.plural, document, namespace, old)

    def _check_creation(self, call: ResourceRequest) -> None:
        """Refuse to create an object by an apply if the requester may only patch (ApiError 403)."""
        target = call.target
        self._users.authorize(
            call.requester,
            Attributes(
                "create",
                target.group,
                target.plural,
                namespace=target.namespace or "",
                name=target.name,
            ),
        )

    def _create_object(self, call: ResourceRequest, document: Json, *, dry_run: bool) -> Record:
        record = self._store.create(
            call.resource, call.target.namespace, document, self._now_ns(), dry_run=dry_run
        )
        return self._after_write(call.resource, record, dry_run=dry_run)

    def _after_write(
        self, resource: Resource, record: Record, *, dry_run: bool, subresource: str = ""
    ) -> Record:
        """Serve a written definition, or check the types of a written policy.

        Returns the record to show to the client.
        """
        if dry_run:
            return record
        if resource is CUSTOM_RESOURCE_DEFINITION:
            custom_resource_definitions.sync_definition(self._store, record.data, self._now_ns())
        elif resource is POLICY and not subresource:
            return write_type_check(self._store, record, self._now_ns())
        return record

    def _update(self, call: ResourceRequest) -> Response:
        rendering = self._rendering(call.http, call.resource)
        document, problems = read_document(call.http, call.resource)
        _check_identity(document, call.target)
        self._check_grant(call, document)
        write = functools.partial(
            self._store.update,
            call.resource,
            call.target.namespace,
            call.target.name,
            document,
            self._now_ns(),
            subresource=call.target.subresource,
        )
        return rendering.object(self._write(call, write), 200, problems)

    def _patch(self, call: ResourceRequest) -> Response:
        rendering = self._rendering(call.http, call.resource)
        kind = patch_type(
            call.http.headers.get("content-type"), strategic=call.resource.type is not None
        )
        if kind == "apply":
            return self._apply(call, rendering)
        patch = read_patch(call.http, kind, call.resource.kind)
        problems = () if kind == "json" else field_problems(call.http, call.resource, patch)
        if self._grants_permissions(call):
            patched = self._store.patch(
                call.resource,
                call.target.namespace,
                call.target.name,
                patch,
                self._now_ns(),
                patch_type=kind,
                dry_run=True,
            )
            self._check_grant(call, patched.data)
        write = functools.partial(
            self._store.patch,
            call.resource,
            call.target.namespace,
            call.target.name,
            patch,
            self._now_ns(),
            patch_type=kind,
            subresource=call.target.subresource,
        )
        return rendering.object(self._write(call, write), 200, problems)

    def _write(self, call: ResourceRequest, write: Callable[..., Record]) -> Record:
        """Execute an update or patch, with field ownership if the object has been applied."""
        if self._rules is not None and call.resource.kind == _CERTIFICATE_REQUEST:
            self._check_signer(call, write(dry_run=True).data)
        dry_run = is_dry_run(call.http)
        record = self._write_tracked(call, write, dry_run=dry_run)
        part = call.target.subresource
        return self._after_write(call.resource, record, dry_run=dry_run, subresource=part)

    def _check_signer(self, call: ResourceRequest, new: Json) -> None:
        part = call.target.subresource
        live = self._store.get(call.resource, None, call.target.name).data
        check_signer_access(self._users, call.requester, part, new, live)

    def _write_tracked(
        self, call: ResourceRequest, write: Callable[..., Record], *, dry_run: bool
    ) -> Record:
        live = self._store.get(call.resource, call.target.namespace, call.target.name).data
        if not is_tracked(live) or call.resource.from_stored is not None:
            return write(dry_run=dry_run)
        new = write(dry_run=True).data
        if new == live:
            return write(dry_run=dry_run)
        now_ns = self._now_ns()
        name = (
            call.http.query.get("fieldManager")
            or call.http.headers.get("user-agent").partition("/")[0]
        )
        manager = Manager(
            name or "unknown", "Update", call.resource.api_version, call.target.subresource
        )
        document = tracked_document(call.resource, live, new, manager, format_timestamp(now_ns))
        return self._store.update(
            call.resource,
            call.target.namespace,
            call.target.name,
            document,
            now_ns,
            subresource=call.target.subresource,
            dry_run=dry_run,
        )

    def _apply(self, call: ResourceRequest, rendering: Rendering) -> Response:
        name = call.http.query.get("fieldManager", "")
        if not name:
            raise api_errors.missing_field_manager()
        applied, problems = read_applied(call.http, call.resource)
        _check_identity(applied, call.target)
        now_ns, dry_run = self._now_ns(), is_dry_run(call.http)
        manager = Manager(name, "Apply", call.resource.api_version, call.target.subresource)
        live = self._store.find_record(call.resource, call.target.namespace, call.target.name)
        if live is None and call.target.subresource:
            raise api_errors.not_found(call.resource.group_resource, call.target.name)
        document = apply_document(
            call.resource,
            None if live is None else live.data,
            applied,
            manager,
            format_timestamp(now_ns),
            force=call.http.query.flag("force"),
        )
        check_object(document)
        self._check_grant(call, document)
        if live is None:
            self._check_creation(call)
            document["metadata"]["name"] = call.target.name
            record = self._create_object(call, document, dry_run=dry_run)
            return rendering.object(record, 201, problems)
        if self._rules is not None and call.resource.kind == _CERTIFICATE_REQUEST:
            self._check_signer(call, document)
        record = self._store.update(
            call.resource,
            call.target.namespace,
            call.target.name,
            document,
            now_ns,
            subresource=call.target.subresource,
            dry_run=dry_run,
        )
        part = call.target.subresource
        record = self._after_write(call.resource, record, dry_run=dry_run, subresource=part)
        return rendering.object(record, 200, problems)

    def _delete(self, call: ResourceRequest) -> Response:
        rendering = self._rendering(call.http, call.resource)
        options = read_options(call.http)
        deletion = self._remove(call, options)
        if call.resource is CUSTOM_RESOURCE_DEFINITION:
            data = deletion.record.data
            custom_resource_definitions.sync_definition(self._store, data, self._now_ns())
        if deletion.gone and call.resource.plural not in _SHOWN_WHEN_GONE:
            return json_answer(200, {**_SUCCESS, "details": _details(deletion.record)})
        return rendering.object(deletion.record)

    def _remove(self, call: ResourceRequest, options: Json) -> Deletion:
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
            self._review_deletion(call)
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

    def _review_deletion(self, call: ResourceRequest) -> None:
        """Run admission of a deletion before other objects are changed for it. Raises ApiError."""
        admission = self._store.admission
        if admission is not None and admission.has_rules:
            target = call.target
            self._store.delete(
                call.resource, target.namespace, target.name, self._now_ns(), dry_run=True
            )

    def _delete_collection(self, call: ResourceRequest) -> Response:
        rendering = self._rendering(call.http, call.resource)
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

    # Subresources

    def _bind(self, call: ResourceRequest) -> Response:
        if call.resource is not self._pods or call.target.namespace is None:
            raise api_errors.unknown_resource()
        if call.http.method != "POST":
            raise api_errors.method_not_allowed()
        body = read_body(call.http, "Binding")
        try:
            binding = msgspec.convert(body, _Binding)
        except msgspec.ValidationError as exc:
            text = f'Binding in version "v1" cannot be handled as a Binding: {exc}'
            raise api_errors.bad_request(text) from exc
        name = call.target.name or binding.metadata.name
        if is_dry_run(call.http):
            self._store.get(self._pods, call.target.namespace, name)
        else:
            uid, node = binding.metadata.uid, binding.target.name
            self._store.bind(call.target.namespace, name, uid, node, self._now_ns())
        return json_answer(201, {**_SUCCESS, "code": 201})

    def _evict(self, call: ResourceRequest) -> Response:
        if call.resource is not self._pods or call.target.namespace is None:
            raise api_errors.unknown_resource()
        if call.http.method != "POST":
            raise api_errors.method_not_allowed()
        body = read_body(call.http, "Eviction")
        options = body.get("deleteOptions") if isinstance(body, dict) else None
        check_delete_options(options)
        dry_run = is_dry_run(call.http, options or {})
        self._review_deletion(call)
        admit_eviction(
            self._store, call.target.namespace, call.target.name, self._now_ns(), dry_run=dry_run
        )
        self._remove(call, options or {})
        return json_answer(201, {**_SUCCESS, "code": 201})

    def _scale(self, call: ResourceRequest) -> Response:
        paths = scale_paths(call.resource)
        if paths is None or (call.resource.namespaced and not call.target.namespace):
            raise api_errors.unknown_resource()
        record = self._store.get(call.resource, call.target.namespace, call.target.name)
        if call.http.method in ("PUT", "PATCH"):
            if call.http.method == "PUT":
                changed = read_body(call.http, "Scale")
            else:
                kind = patch_type(call.http.headers.get("content-type"), strategic=True)
                changed = read_patch(call.http, kind, "Scale")
                changed = _patched_scale(make_scale(record, paths), changed, kind)
            record = self._store.patch(
                call.resource,
                call.target.namespace,
                call.target.name,
                make_replicas_patch(changed, record, paths),
                self._now_ns(),
                patch_type="merge",
                dry_run=is_dry_run(call.http),
            )
        elif call.http.method not in ("GET", "HEAD"):
            raise api_errors.method_not_allowed()
        return json_answer(200, make_scale(record, paths))

    def _token(self, call: ResourceRequest) -> Response:
        if call.resource.group_resource != "serviceaccounts" or call.target.namespace is None:
            raise api_errors.unknown_resource()
        if call.http.method != "POST":
            raise api_errors.method_not_allowed()
        if self._tokens is None:
            raise api_errors.not_possible("this server issues no tokens")
        body = read_body(call.http, "TokenRequest")
        if not isinstance(body, dict) or not isinstance(body.get("spec", {}), dict):
            raise api_errors.bad_request("the body is no TokenRequest")
        return json_answer(201, self._tokens.request(call.target.namespace, call.target.name, body))

    def _rendering(self, request: Request, resource: Resource) -> Rendering:
        form = accepted_form(request.headers.get("accept"))
        included = request.query.get("includeObject", "")
        if form.shape == "table" and included not in _INCLUDED:
            listed = ", ".join(quote(each) for each in _INCLUDED)
            raise api_errors.bad_request(
                "Unable to convert to Table as requested: includeObject: Unsupported value: "
                f"{quote(included)}: supported values: {listed}"
            )
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
        return apply_patch(scale, patch, kind, kind_merge_rules("autoscaling", "v1", "Scale"))
    except PatchError as exc:
        raise api_errors.bad_patch(str(exc)) from exc


def _check_identity(document: Json, target: RequestTarget) -> None:
    """Refuse an object whose name or namespace is not that in the path."""
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
