"""Subresources of their own form: bindings, evictions, scales, tokens, and processes of pods."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from kubesched.api import Pod
from kubesched.cluster.apiserver.http.kubelet_subresources import (
    KUBELET_SUBRESOURCES,
    refuse_subresource,
)
from kubesched.cluster.apiserver.http.media_types import patch_type
from kubesched.cluster.apiserver.http.pod_processes import (
    PodProcesses,
    answer_attach,
    answer_exec,
    answer_log,
    answer_port_forward,
)
from kubesched.cluster.apiserver.http.query_parameters import is_dry_run
from kubesched.cluster.apiserver.http.request_bodies import (
    check_delete_options,
    read_body,
    read_patch,
)
from kubesched.cluster.apiserver.http.resource_deletions import ResourceDeletions
from kubesched.cluster.apiserver.http.resource_requests import SCALE, SUCCESS, ResourceRequest
from kubesched.cluster.apiserver.http.resource_writes import ResourceWrites
from kubesched.cluster.apiserver.http.response_rendering import json_answer
from kubesched.cluster.apiserver.http.scale_subresource import (
    make_replicas_patch,
    make_scale,
    scale_paths,
)
from kubesched.cluster.apiserver.http.service_account_tokens import ServiceAccountTokens
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.patching.merge_rules import kind_merge_rules
from kubesched.cluster.apiserver.rules.patching.patches import PatchError, apply_patch
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.pod_eviction import admit_eviction
from kubesched.foundation.http.http_messages import Response
from kubesched.foundation.util.clock import Clock

__all__ = ["ResourceSubresources"]

Json = dict[str, Any]

# The methods of subresources that are handled by the processes of a pod.
_ANSWERED_BY_PROCESSES = {
    "attach": (("GET", "POST"), answer_attach),
    "exec": (("GET", "POST"), answer_exec),
    "log": (("GET",), answer_log),
    "portforward": (("GET", "POST"), answer_port_forward),
}


class ResourceSubresources:
    """Handles the requests for subresources that are not written like the object."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        writes: ResourceWrites,
        deletions: ResourceDeletions,
        tokens: ServiceAccountTokens | None,
    ) -> None:
        """`writes` changes scales, `deletions` removes evicted pods, `tokens` issues tokens."""
        self._store = store
        self._clock = clock
        self._now_ns = clock.now_ns
        self._writes = writes
        self._deletions = deletions
        self._tokens = tokens
        # What the containers of pods print; None if this server has no nodes.
        self.processes: PodProcesses | None = None
        self._pods = store.catalog.by_url("", "v1", "pods")
        self._handlers: dict[str, Callable[[ResourceRequest], Response]] = {
            "binding": self.bind,
            "eviction": self._evict,
            SCALE: self._scale,
            "token": self._token,
        }

    def answer(self, call: ResourceRequest) -> Response:
        """Handle a request for a subresource. Raises ApiError."""
        target = call.target
        if target.subresource in _ANSWERED_BY_PROCESSES and self.processes is not None:
            return self._process(call, self.processes)
        if target.subresource in KUBELET_SUBRESOURCES:
            refuse_subresource(
                self._store, call.resource, target.namespace, target.name, target.subresource
            )
        handler = self._handlers.get(target.subresource)
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

    def bind(self, call: ResourceRequest) -> Response:
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
        return json_answer(201, {**SUCCESS, "code": 201})

    def _evict(self, call: ResourceRequest) -> Response:
        if call.resource is not self._pods or call.target.namespace is None:
            raise api_errors.unknown_resource()
        if call.http.method != "POST":
            raise api_errors.method_not_allowed()
        body = read_body(call.http, "Eviction")
        options = body.get("deleteOptions") if isinstance(body, dict) else None
        check_delete_options(options)
        dry_run = is_dry_run(call.http, options or {})
        self._deletions.review_deletion(call)
        admit_eviction(
            self._store, call.target.namespace, call.target.name, self._now_ns(), dry_run=dry_run
        )
        self._deletions.remove(call, options or {})
        return json_answer(201, {**SUCCESS, "code": 201})

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
                if kind == "apply":
                    return self._writes.apply(call)
                changed = read_patch(call.http, kind, "Scale")
                changed = _patched_scale(make_scale(record, paths), changed, kind)
            write = functools.partial(
                self._store.patch,
                call.resource,
                call.target.namespace,
                call.target.name,
                make_replicas_patch(changed, record, paths),
                self._now_ns(),
                patch_type="merge",
            )
            record = self._writes.write_tracked(call, write, dry_run=is_dry_run(call.http))
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


class _Named(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Binding(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)
    target: _Named = msgspec.field(default_factory=_Named)


def _patched_scale(scale: Json, patch: Any, kind: str) -> Json:
    try:
        return apply_patch(scale, patch, kind, kind_merge_rules("autoscaling", "v1", "Scale"))
    except PatchError as exc:
        raise api_errors.bad_patch(str(exc)) from exc
