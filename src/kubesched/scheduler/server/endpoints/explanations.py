"""`/explain/namespaces/NS/pods/NAME`: why a pod waits; `/explain/queue`: who waits where.

Not of the reference. Authorised like every other page of the process, by the path. What is shown is
computed by whoever wires the process; this module knows only paths, queries and the answers' form.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import (
    Handler,
    Request,
    Response,
    text_error,
)

__all__ = ["EXPLAIN", "Explanations", "explain_handler"]

EXPLAIN = "/explain/"


class Explanations(Protocol):
    """Who answers, in JSON. Raises KubeschedError for what cannot be answered."""

    def explain(
        self, namespace: str, name: str, *, versus: str = "", suggest: bool = True
    ) -> Awaitable[bytes]: ...

    def queue(self) -> Awaitable[bytes]: ...


def explain_handler(explanations: Explanations) -> Handler:
    async def answer(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return text_error("only GET", 405)
        match request.path.removeprefix(EXPLAIN).split("/"):
            case ["namespaces", namespace, "pods", name] if namespace and name:
                versus = request.query.get("versus")
                suggest = request.query.all("suggestions") != ["false"]
                work = explanations.explain(namespace, name, versus=versus, suggest=suggest)
            case ["queue"]:
                work = explanations.queue()
            case _:
                return text_error(
                    "expected /explain/namespaces/NAMESPACE/pods/NAME or /explain/queue", 404
                )
        try:
            body = await work
        except KubeschedError as error:
            return text_error(str(error), 404)
        return Response(
            body=body,
            content_type="application/json",
            headers={"X-Content-Type-Options": "nosniff"},
        )

    return answer
