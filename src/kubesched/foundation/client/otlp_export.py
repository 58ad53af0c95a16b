"""Exports spans with OpenTelemetry's OTLP exporter; needs the extra `otel`.

The exporter sends batches in a separate thread. It reads the standard variables, such as
OTEL_EXPORTER_OTLP_HEADERS. A collector that is not reachable delays nothing: spans are dropped.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kubesched.errors import ConfigError
from kubesched.foundation.util.spans import FinishedSpan

__all__ = ["OtlpExport"]


class OtlpExport:
    """A sink of spans, and a component that flushes the rest at the end."""

    def __init__(self, endpoint: str, version: str, hostname: str) -> None:
        """`endpoint` is the URL of a collector; spans go to `/v1/traces` below it.

        Raises:
            ConfigError: the extra is not installed.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import ReadableSpan
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
            from opentelemetry.trace.status import Status, StatusCode
        except ImportError as exc:
            error = ConfigError("--trace-endpoint needs the package opentelemetry")
            error.add_note("pip install 'kubesched[otel]'")
            raise error from exc
        self._resource = Resource.create(
            {"service.name": "kubesched", "service.version": version, "host.name": hostname}
        )
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
        self._processor = BatchSpanProcessor(exporter)
        self._stopping = asyncio.Event()
        sampled = TraceFlags(TraceFlags.SAMPLED)

        def context(trace_id: int, span_id: int) -> Any:
            return SpanContext(trace_id, span_id, is_remote=False, trace_flags=sampled)

        def readable(span: FinishedSpan) -> Any:
            status = Status(StatusCode.ERROR, span.error) if span.error else Status()
            return ReadableSpan(
                span.name,
                context=context(span.trace_id, span.span_id),
                parent=context(span.trace_id, span.parent_id) if span.parent_id else None,
                resource=self._resource,
                attributes=span.attributes,
                kind=SpanKind.INTERNAL,
                status=status,
                start_time=span.start_ns,
                end_time=span.end_ns,
            )

        self._readable = readable

    def __call__(self, span: FinishedSpan) -> None:
        """Queue a span for the next batch. Never waits."""
        self._processor.on_end(self._readable(span))

    async def run(self) -> None:
        await self._stopping.wait()
        await asyncio.to_thread(self._processor.shutdown)

    def stop(self) -> None:
        self._stopping.set()
