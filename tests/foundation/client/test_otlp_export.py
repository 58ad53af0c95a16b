"""Spans arrive at a collector in the form of OTLP."""

from __future__ import annotations

import asyncio
import gzip

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from kubesched.foundation.client.otlp_export import OtlpExport
from kubesched.foundation.util.components import running
from kubesched.foundation.util.spans import FinishedSpan


def test_spans_are_sent_at_the_end_at_the_latest() -> None:
    received: list[ExportTraceServiceRequest] = []

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        received.append(ExportTraceServiceRequest.FromString(body))
        return web.Response()

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/v1/traces", take)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        (address,) = runner.addresses
        export = OtlpExport(f"http://127.0.0.1:{address[1]}/", "1.2.3", "host")
        async with running(export):
            export(FinishedSpan("pod a/b", 7, 1, 0, 1_000, 9_000, {"k8s.pod.name": "b"}))
            export(FinishedSpan("attempt", 7, 2, 1, 2_000, 3_000, {}, error="no node"))
        await runner.cleanup()

    asyncio.run(main())
    (request,) = received
    (resource,) = request.resource_spans
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert attributes["service.name"] == "kubesched"
    assert attributes["service.version"] == "1.2.3"
    root, attempt = (span for scope in resource.scope_spans for span in scope.spans)
    assert (root.name, root.trace_id, root.parent_span_id) == ("pod a/b", (7).to_bytes(16), b"")
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (1_000, 9_000)
    assert attempt.parent_span_id == root.span_id == (1).to_bytes(8)
    assert attempt.status.message == "no node"
