"""`/explain/namespaces/NS/pods/NAME`: why a pod waits, or goes where it goes.

Not of the reference. Authorised like every other page of the process, by the path. What is shown is
computed by whoever wires the process; this module knows only the path and the answer's form.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kubesched.server.endpoints.http_messages import Handler, Request, Response, text_error
from kubesched.util.errors import KubeschedError

__all__ = ["EXPLAIN", "Explain", "explain_handler"]

EXPLAIN = "/explain/"

# JSON about a pod, by namespace and name.
Explain = Callable[[str, str], Awaitable[bytes]]


def explain_handler(explain: Explain) -> Handler:
    async def answer(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return text_error("only GET", 405)
        match request.path.removeprefix(EXPLAIN).split("/"):
            case ["namespaces", namespace, "pods", name] if namespace and name:
                pass
            case _:
                return text_error("expected /explain/namespaces/NAMESPACE/pods/NAME", 404)
        try:
            body = await explain(namespace, name)
        except KubeschedError as error:
            return text_error(str(error), 404)
        return Response(
            body=body,
            content_type="application/json",
            headers={"X-Content-Type-Options": "nosniff"},
        )

    return answer
