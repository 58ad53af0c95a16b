"""Reads of resources: one object, a list, a watch."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.http.continuation_ages import ContinuationAges
from kubesched.cluster.apiserver.http.query_parameters import ListOptions, parse_list_options
from kubesched.cluster.apiserver.http.request_paths import RequestTarget
from kubesched.cluster.apiserver.http.resource_requests import ResourceRequest
from kubesched.cluster.apiserver.http.response_rendering import Rendering
from kubesched.cluster.apiserver.http.served_watch import ServedWatch
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.list_pages import CURRENT, Continuation, too_old_to_continue
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.preconditions import parse_revision
from kubesched.foundation.http.http_messages import Response

__all__ = ["ResourceReads"]

_GONE = 410


class ResourceReads:
    """Handles the requests that read objects."""

    def __init__(self, store: Store, now_ns: Callable[[], int]) -> None:
        self._store = store
        self._now_ns = now_ns
        self._ages = ContinuationAges()

    def get(self, call: ResourceRequest) -> Response:
        rendering = call.rendering(self._now_ns)
        self._check_revision(call.http.query.get("resourceVersion"))
        return rendering.object(
            self._store.get(call.resource, call.target.namespace, call.target.name)
        )

    def list_or_watch(self, call: ResourceRequest) -> Response | ServedWatch:
        rendering = call.rendering(self._now_ns)
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
