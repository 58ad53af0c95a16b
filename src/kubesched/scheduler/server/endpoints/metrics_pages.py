"""`/metrics`, `/metrics/slis` and their reset (docs/reference/02 §6.2)."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence

from prometheus_client.registry import CollectorRegistry

from kubesched.foundation.http.http_messages import Handler, Request, Response
from kubesched.foundation.metrics.exposition import render
from kubesched.foundation.metrics.instruments import FamilyGroup

__all__ = ["exposed", "metrics_handler"]

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPING = re.compile(r"escaping=([a-z0-9-]+)")
_SMALLEST_WORTH_PACKING = 1024


def metrics_handler(
    registry: CollectorRegistry, groups: Sequence[FamilyGroup], start_seconds: int | None = None
) -> Handler:
    """Return a handler that serves a registry; `DELETE` resets the groups."""

    async def answer(request: Request) -> Response:
        if request.method == "DELETE":
            for group in groups:
                group.reset()
            return Response(body=b"metrics reset\n")
        page = exposed(request, [render(registry)])
        if start_seconds is None:
            return page
        return page.with_headers(Process_Start_Time_Unix=str(start_seconds))

    return answer


def exposed(request: Request, parts: Iterable[str]) -> Response:
    """Return the metrics in the text format, compressed if the client accepts that."""
    text = "".join(parts).encode()
    asked = _ESCAPING.search(request.headers.get("Accept").replace(" ", ""))
    escaping = asked.group(1) if asked else "underscores"
    page = Response(body=text, content_type=f"{_CONTENT_TYPE}; escaping={escaping}")
    if len(text) < _SMALLEST_WORTH_PACKING or not _accepts_gzip(request):
        return page
    packed = Response(body=gzip.compress(text, 1, mtime=0), content_type=page.content_type)
    return packed.with_headers(Content_Encoding="gzip")


def _accepts_gzip(request: Request) -> bool:
    for clause in ",".join(request.headers.all("Accept-Encoding")).split(","):
        coding, _, weight = clause.replace(" ", "").lower().partition(";")
        if coding == "gzip":
            return weight not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
