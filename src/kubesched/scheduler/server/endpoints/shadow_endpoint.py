"""`/shadow`: the ledger of `kubesched run --shadow` as JSON. The reference has no such path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import Handler, Request, Response, text_error

__all__ = ["SHADOW", "shadow_handler"]

SHADOW: Final = "/shadow"


def shadow_handler(report: Callable[[], bytes]) -> Handler:
    """Return a handler that responds with the report.

    `report` raises KubeschedError while there is none.
    """

    async def answer(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return text_error("only GET", 405)
        try:
            body = report()
        except KubeschedError as error:
            return text_error(str(error), 503)
        return Response(
            body=body,
            content_type="application/json",
            headers={"X-Content-Type-Options": "nosniff"},
        )

    return answer
