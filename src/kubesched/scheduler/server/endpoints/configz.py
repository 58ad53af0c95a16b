"""`/configz`: the current configuration in the form of a file (docs/reference/02 §6.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubesched.foundation.http.http_messages import Handler, Request, Response
from kubesched.scheduler.server.endpoints.status_answers import encode_json

__all__ = ["COMPONENT_CONFIG", "configz_handler"]

COMPONENT_CONFIG = "componentconfig"


def configz_handler(configuration: Callable[[], Mapping[str, Any]]) -> Handler:
    """Return a handler that serves the completed configuration as JSON."""

    async def answer(_: Request) -> Response:
        page = encode_json({COMPONENT_CONFIG: configuration()}).rstrip(b"\n")
        return Response(
            body=page,
            content_type="application/json",
            headers={"X-Content-Type-Options": "nosniff"},
        )

    return answer
