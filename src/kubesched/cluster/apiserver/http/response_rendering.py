"""Encoding of records in the form that a client accepts: objects, metadata only, or tables.

An object is encoded as JSON once per revision, for all clients. Lists and watch events are
joined from these encoded objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from kubesched.api.meta import Status
from kubesched.cluster.apiserver.http.media_types import Form
from kubesched.cluster.apiserver.http.protobuf import (
    PROTOBUF,
    UnwritableError,
    watch_frame,
    write_protobuf,
)
from kubesched.cluster.apiserver.http.tables import layout_of
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.list_pages import Page
from kubesched.cluster.apiserver.store.store_watch import WatchedChange
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.cluster.apiserver.store.wire_form import status_body
from kubesched.foundation.http.http_messages import JSON, Response

__all__ = ["Rendering", "encode", "json_answer", "warning_headers", "with_warning"]

Json = dict[str, Any]

encode = msgspec.json.Encoder().encode
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def warning_headers(texts: Sequence[str]) -> dict[str, str]:
    """Return the headers that carry warnings for a client."""
    if not texts:
        return {}
    return {"Warning": ", ".join(f"299 - {json.dumps(text)}" for text in texts)}


def with_warning(answer: Response, text: str) -> Response:
    """Return a response with one more warning."""
    warning = warning_headers([text])["Warning"]
    others = answer.headers.get("Warning")
    listed = f"{warning}, {others}" if others else warning
    return msgspec.structs.replace(answer, headers={**answer.headers, "Warning": listed})


def json_answer(status: int, document: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return a document as JSON, with the line end that clients of the reference get."""
    return Response(status, encode(document) + b"\n", JSON, headers or {})


class Rendering:
    """Encodes objects of one resource in the form that one request accepts."""

    def __init__(
        self,
        resource: Resource,
        form: Form,
        now_ns: Callable[[], int],
        *,
        included: str = "Metadata",
    ) -> None:
        """`included` is the object in each row of a table: `Metadata`, `Object` or `None`."""
        self._resource = resource
        self._form = form
        self._now_ns = now_ns
        self._included = included or "Metadata"
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        # The beginning of an object's JSON, with kind and version. Items of a list lack it.
        self._head = encode(head)[:-1] + b","

    def object(self, record: Record, status: int = 200, texts: Sequence[str] = ()) -> Response:
        if self._form.shape == "table":
            body = encode(self._table([record], {"resourceVersion": _version(record)}))
        elif self._form.shape == "metadata":
            body = encode(self._metadata(record))
        else:
            body = record.encoded
        return self._answer(body, status, warning_headers(texts))

    def page(self, page: Page) -> Response:
        metadata: Json = {"resourceVersion": str(page.revision)}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        if self._form.shape == "table":
            return self._answer(encode(self._table(page.records, metadata)))
        if self._form.shape == "metadata":
            items = [self._metadata(record) for record in page.records]
            listed = {**self._meta("PartialObjectMetadataList"), "metadata": metadata}
            return self._answer(encode({**listed, "items": items}))
        resource = self._resource
        head = encode(
            {
                "kind": f"{resource.kind}List",
                "apiVersion": resource.api_version,
                "metadata": metadata,
            }
        )
        pieces = b",".join([self._item(record) for record in page.records])
        return self._answer(b"".join((head[:-1], b',"items":[', pieces, b"]}")))

    def events(self) -> Callable[[Sequence[WatchedChange]], bytes]:
        """Return a function that encodes the events of a watch.

        Only the first table of a watch has column definitions.
        """
        if self._form.shape == "object" and not self._is_binary:
            return _encoded_events
        has_sent_columns = False

        def encode_events(changes: Sequence[WatchedChange]) -> bytes:
            nonlocal has_sent_columns
            lines = []
            for each in changes:
                assert each.record is not None
                if self._form.shape == "metadata":
                    shown = self._metadata(each.record)
                elif self._form.shape == "object":
                    shown = msgspec.json.decode(each.record.encoded)
                else:
                    metadata = {"resourceVersion": _version(each.record)}
                    shown = self._table([each.record], metadata, columns=not has_sent_columns)
                    has_sent_columns = True
                lines.append(self._event(each.type, shown))
            return b"".join(lines)

        return encode_events

    def bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        metadata: Json = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_events_end:
            metadata["annotations"] = {_INITIAL_EVENTS_END: "true"}
        resource = self._resource
        shown: Json
        if self._form.shape == "table":
            partial = {**self._meta("PartialObjectMetadata"), "metadata": metadata}
            rows = [{"cells": [], "object": partial}]
            listed = {"resourceVersion": str(revision)}
            shown = {**self._meta("Table"), "metadata": listed, "rows": rows}
        elif self._form.shape == "metadata":
            shown = {**self._meta("PartialObjectMetadata"), "metadata": metadata}
        else:
            shown = {"kind": resource.kind, "apiVersion": resource.api_version}
            shown["metadata"] = metadata
        return self._event("BOOKMARK", shown)

    def error(self, status: Status) -> bytes:
        """Encode the error that ends a watch."""
        return self._event("ERROR", status_body(status))

    @property
    def stream_type(self) -> str:
        return f"{PROTOBUF};stream=watch" if self._is_binary else JSON

    @property
    def _is_binary(self) -> bool:
        return self._form.language == "protobuf"

    def _event(self, kind: str, shown: Json) -> bytes:
        if self._is_binary:
            return watch_frame(kind, shown)
        return encode({"type": kind, "object": shown}) + b"\n"

    def _item(self, record: Record) -> bytes:
        encoded = record.encoded
        # In lists of custom resources every item has its kind.
        if self._resource.type is None or not encoded.startswith(self._head):
            return encoded
        return b"{" + encoded[len(self._head) :]

    def _meta(self, kind: str) -> Json:
        return {"kind": kind, "apiVersion": f"meta.k8s.io/{self._form.version}"}

    def _metadata(self, record: Record) -> Json:
        return {**self._meta("PartialObjectMetadata"), "metadata": record.data["metadata"]}

    def _table(self, records: Sequence[Record], metadata: Json, *, columns: bool = True) -> Json:
        layout, now_ns = layout_of(self._resource), self._now_ns()
        rows = []
        for record in records:
            row: Json = {"cells": list(layout.cells(record.data, now_ns))}
            if self._included == "Object":
                row["object"] = msgspec.Raw(record.encoded)
            elif self._included == "Metadata":
                row["object"] = self._metadata(record)
            rows.append(row)
        return {
            **self._meta("Table"),
            "metadata": metadata,
            "columnDefinitions": layout.definitions() if columns else None,
            "rows": rows,
        }

    def _answer(self, body: bytes, status: int = 200, headers: Any = None) -> Response:
        if self._form.language == "yaml":
            document = msgspec.json.decode(body)
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
            return Response(status, text.encode(), "application/yaml", headers or {})
        if self._is_binary:
            try:
                binary = write_protobuf(msgspec.json.decode(body))
            except UnwritableError as exc:
                raise api_errors.not_acceptable(f"{exc}; request application/json") from exc
            return Response(status, binary, PROTOBUF, headers or {})
        return Response(status, body + b"\n", JSON, headers or {})


def _encoded_events(changes: Sequence[WatchedChange]) -> bytes:
    pieces = []
    for each in changes:
        assert each.record is not None
        pieces.append(_OPENINGS[each.type])
        pieces.append(each.record.encoded)
        pieces.append(b"}\n")
    return b"".join(pieces)


_OPENINGS = {
    kind: b'{"type":"%s","object":' % kind.encode() for kind in ("ADDED", "MODIFIED", "DELETED")
}


def _version(record: Record) -> str:
    version: str = record.data["metadata"].get("resourceVersion", "")
    return version
