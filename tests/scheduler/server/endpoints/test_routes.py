"""Exact paths first, then the longest prefix, then nothing."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.foundation.http.http_messages import Handler, Request, Response
from kubesched.scheduler.server.endpoints.routes import Routes


def named(name: str) -> Handler:
    async def answer(_: Request) -> Response:
        return Response(body=name.encode())

    return answer


def routes() -> Routes:
    found = Routes()
    found.add("/debug/flags/v", named("exact"), listed=False)
    found.add("/metrics", named("metrics"))
    found.add("/metrics/slis", named("slis"))
    found.add_prefix("/debug/", named("short"))
    found.add_prefix("/debug/flags/", named("long"))
    return found


@pytest.mark.parametrize(
    ("path", "answer"),
    {
        "/debug/flags/v": b"exact",
        "/debug/flags/w": b"long",
        "/debug/flags": b"short",
        "/debug/": b"short",
        "/debug": b"404 page not found\n",
        "/metrics": b"metrics",
        "/metrics/": b"404 page not found\n",
        "/Metrics": b"404 page not found\n",
        "": b"404 page not found\n",
    }.items(),
)
def test_find(path: str, answer: bytes) -> None:
    request = Request(method="GET", target=path, path=path)
    assert asyncio.run(routes().find(path)(request)).body == answer


def test_unlisted_paths_and_prefixes_are_not_advertised() -> None:
    assert routes().first_segments() == ["/metrics"]
