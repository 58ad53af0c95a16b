"""`/explain/namespaces/NS/pods/NAME`: why a pod waits; `/explain/queue`: the queue.

The reference has no such endpoints. Authorization is by path, as for every endpoint. The caller
passes the object that computes explanations; this module only handles paths, queries and formats.
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
    """Computes explanations as JSON. Raises KubeschedError if there is nothing to explain."""

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
