"""The page's server side: routes, sign-in, one event stream per viewer.

Mounted under a path of some HTTP server (the embedded API server, or one of its own). What takes
long (explanations, what-ifs) is computed from immutable objects in a worker thread, so it never
holds up the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec
from aiohttp import web

from kubesched.api import Node, Pod
from kubesched.dashboard.answers import Answers, BadRequestError
from kubesched.dashboard.cluster_view import ClusterView
from kubesched.dashboard.sign_in import COOKIE, SignIn
from kubesched.dashboard.viewers import Viewer
from kubesched.util.errors import KubeschedError
from kubesched.util.logging import get_logger

__all__ = ["PREFIX", "Dashboard"]

PREFIX = "/dashboard"

log = get_logger(__name__)

_SHORTEST_PAUSE_S = 0.1
_HEARTBEAT_S = 5.0
_STALLED_S = 60.0
_MOST_VIEWERS = 100
_MOST_BODY = 1 << 20
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SIGN_IN = "Sign in: open the link that kubesched printed; it works once.\n"


class Dashboard:
    """Answers requests under `PREFIX`."""

    def __init__(
        self,
        view: ClusterView,
        answers: Answers,
        sign_in: SignIn,
    ) -> None:
        self._view = view
        self._answers = answers
        self.sign_in = sign_in
        self._viewers = 0
        self._files = resources.files("kubesched.dashboard") / "static"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request whose path begins with the prefix."""
        if not self.sign_in.is_known_host(request.headers.get("Host", "")):
            return _text(421, "this server is not known by that name\n")
        path = request.path.removeprefix(PREFIX)
        token = request.query.get("token")
        if token is not None and request.method == "GET":
            return self._redeem(request, token)
        if not self.sign_in.knows(request.headers.get("Cookie", "")):
            return _text(401, _SIGN_IN)
        if request.method == "POST" and not self.sign_in.is_own_origin(
            request.headers.get("Origin", ""), request.headers.get("Host", "")
        ):
            return _text(403, "requests that change something must come from the page itself\n")
        if path.startswith("/api/"):
            return await self._api(request, path.removeprefix("/api/"))
        if request.method not in ("GET", "HEAD"):
            return _text(405, "only reading\n")
        if not path:
            return _redirect(f"{PREFIX}/")
        return self._file(path.lstrip("/") or "index.html")

    def _redeem(self, request: web.BaseRequest, token: str) -> web.StreamResponse:
        session = self.sign_in.redeem(token)
        if session is None:
            if self.sign_in.knows(request.headers.get("Cookie", "")):
                return _redirect(f"{PREFIX}/")
            return _text(401, _SIGN_IN)
        answer = _redirect(f"{PREFIX}/")
        secure = "; Secure" if request.secure else ""
        answer.headers["Set-Cookie"] = (
            f"{COOKIE}={session}; Path={PREFIX}; HttpOnly; SameSite=Strict{secure}"
        )
        return answer

    def _file(self, name: str) -> web.Response:
        suffix = name[name.rfind(".") :]
        place = self._files
        for part in name.split("/"):
            if part in ("", ".", ".."):
                return _text(404, "no such page\n")
            place = place / part
        if suffix not in _TYPES or not place.is_file():
            return _text(404, "no such page\n")
        headers = {**_SECURITY, "Content-Type": _TYPES[suffix]}
        return web.Response(body=place.read_bytes(), headers=headers)

    async def _api(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path == "stream" and request.method == "GET":
            return await self._stream(request)
        try:
            if request.method == "GET":
                return _json(await self._answers.get(path, dict(request.query)))
            if request.method == "POST":
                return _json(await self._answers.post(path, await _body(request)))
        except BadRequestError as error:
            return _json({"error": str(error)}, error.status)
        except KubeschedError as error:
            return _json({"error": str(error)}, 400)
        return _text(405, "only GET and POST\n")

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        """Frames as server-sent events; the next one is made when the last one was taken."""
        if self._viewers >= _MOST_VIEWERS:
            return _text(503, "too many viewers\n")
        headers = {**_SECURITY, "Content-Type": "text/event-stream"}
        response = web.StreamResponse(headers=headers)
        viewer = Viewer(self._view)
        self._viewers += 1
        try:
            await response.prepare(request)
            while True:
                frame = msgspec.json.encode(self._answers.decorated(viewer.next_frame()))
                async with asyncio.timeout(_STALLED_S):
                    await response.write(b"data: " + frame + b"\n\n")
                await asyncio.sleep(_SHORTEST_PAUSE_S)
                await viewer.wait(_HEARTBEAT_S)
        except (ConnectionError, TimeoutError):
            pass  # the viewer went away, or does not read
        finally:
            self._viewers -= 1
            viewer.close()
        return response


async def _body(request: web.BaseRequest) -> Mapping[str, Any]:
    raw = await request.content.read(_MOST_BODY + 1)
    if len(raw) > _MOST_BODY:
        raise BadRequestError("the request is too large", 413)
    try:
        body = msgspec.json.decode(raw or b"{}")
    except msgspec.DecodeError as error:
        raise BadRequestError(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequestError("expected an object")
    return body


def _json(value: Any, status: int = 200) -> web.Response:
    headers = {**_SECURITY, "Content-Type": "application/json"}
    return web.Response(status=status, body=msgspec.json.encode(value), headers=headers)


def _text(status: int, text: str) -> web.Response:
    headers = {**_SECURITY, "Content-Type": "text/plain; charset=utf-8"}
    return web.Response(status=status, body=text.encode(), headers=headers)


def _redirect(where: str) -> web.Response:
    return web.Response(status=303, headers={**_SECURITY, "Location": where})


def follow(view: ClusterView, nodes: Any, pods: Any) -> None:
    """Feed a view from the informers of nodes and pods."""

    def node_changed(_old: Node, new: Node) -> None:
        view.put_node(new)

    def pod_changed(_old: Pod, new: Pod) -> None:
        view.put_pod(new)

    nodes.add_handler(view.put_node, node_changed, lambda node, _: view.remove_node(node))
    pods.add_handler(view.put_pod, pod_changed, lambda pod, _: view.remove_pod(pod))
