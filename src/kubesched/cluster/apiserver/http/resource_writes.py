"""Writes of resources: create, update, patch and apply."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from kubesched.cluster.apiserver.http.media_types import patch_type
from kubesched.cluster.apiserver.http.object_completion import complete_document
from kubesched.cluster.apiserver.http.query_parameters import is_dry_run
from kubesched.cluster.apiserver.http.request_bodies import (
    field_problems,
    read_applied,
    read_applied_scale,
    read_document,
    read_patch,
)
from kubesched.cluster.apiserver.http.request_paths import RequestTarget
from kubesched.cluster.apiserver.http.resource_requests import SCALE, ResourceRequest
from kubesched.cluster.apiserver.http.response_rendering import json_answer
from kubesched.cluster.apiserver.http.scale_subresource import (
    make_scale,
    scale_paths,
    scaled_fields,
)
from kubesched.cluster.apiserver.http.signer_authorization import check_signer_access
from kubesched.cluster.apiserver.http.users import Attributes, Users
from kubesched.cluster.apiserver.rules.apply import (
    Manager,
    apply_document,
    is_tracked,
    tracked_document,
)
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.value_limit import check_object
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.rules.rbac_rules import Subject
from kubesched.cluster.apiserver.rules.request_documents import check_document
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store import custom_resource_definitions
from kubesched.cluster.apiserver.store.access_rules import AccessRules
from kubesched.cluster.apiserver.store.admission_policies import POLICY, write_type_check
from kubesched.cluster.apiserver.store.custom_resource_definitions import CUSTOM_RESOURCE_DEFINITION
from kubesched.cluster.apiserver.store.definition_deletion import refuse_creation
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.foundation.http.http_messages import Response

__all__ = ["ResourceWrites"]

Json = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"
_CERTIFICATE_REQUEST = "CertificateSigningRequest"


class ResourceWrites:
    """Handles the requests that create or change objects."""

    def __init__(
        self, store: Store, now_ns: Callable[[], int], users: Users, rules: AccessRules | None
    ) -> None:
        """`users` authorizes, `rules` limits what users may grant."""
        self._store = store
        self._now_ns = now_ns
        self._users = users
        self._rules = rules

    def create(self, call: ResourceRequest) -> Response:
        rendering = call.rendering(self._now_ns)
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

    def update(self, call: ResourceRequest) -> Response:
        rendering = call.rendering(self._now_ns)
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

    def patch(self, call: ResourceRequest) -> Response:
        rendering = call.rendering(self._now_ns)
        kind = patch_type(
            call.http.headers.get("content-type"), strategic=call.resource.type is not None
        )
        if kind == "apply":
            return self.apply(call)
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
        record = self.write_tracked(call, write, dry_run=dry_run)
        part = call.target.subresource
        return self._after_write(call.resource, record, dry_run=dry_run, subresource=part)

    def _check_signer(self, call: ResourceRequest, new: Json) -> None:
        part = call.target.subresource
        live = self._store.get(call.resource, None, call.target.name).data
        check_signer_access(self._users, call.requester, part, new, live)

    def write_tracked(
        self, call: ResourceRequest, write: Callable[..., Record], *, dry_run: bool
    ) -> Record:
        """Execute a write, with field ownership if the object has been applied."""
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
            subresource=call.written_part,
            dry_run=dry_run,
        )

    def apply(self, call: ResourceRequest) -> Response:
        """Handle a server-side apply of an object or of its scale. Raises ApiError."""
        rendering = call.rendering(self._now_ns)
        name = call.http.query.get("fieldManager", "")
        if not name:
            raise api_errors.missing_field_manager()
        applied, problems = self._read_applied(call)
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
            subresource=call.written_part,
            dry_run=dry_run,
        )
        part = call.target.subresource
        if part == SCALE and (paths := scale_paths(call.resource)) is not None:
            return json_answer(200, make_scale(record, paths))
        record = self._after_write(call.resource, record, dry_run=dry_run, subresource=part)
        return rendering.object(record, 200, problems)

    def _read_applied(self, call: ResourceRequest) -> tuple[Json, Sequence[str]]:
        """Read the body of an apply, that of a scale as fields of the object. Raises ApiError."""
        if call.target.subresource != SCALE:
            return read_applied(call.http, call.resource)
        paths = scale_paths(call.resource)
        if paths is None:
            raise api_errors.unknown_resource()
        scale = read_applied_scale(call.http)
        return scaled_fields(scale, paths), ()


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
