"""The server side of the page: files, requests, and one event stream per viewer.

It handles plain requests (`foundation/http/http_messages.py`), so that it can be mounted on any
server of this project: the embedded API server, the scheduler's secure port, or its own server. All
addresses in the page are relative, so that it works behind any path of a proxy.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from importlib import resources
from typing import Any, Final

import msgspec

from kubesched.dashboard.bad_request import BadRequestError
from kubesched.dashboard.page_queries import PageQueries
from kubesched.dashboard.sign_in import SignIn
from kubesched.dashboard.stream_frames import FrameHub
from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import BadRequest, Request, Response

__all__ = ["PREFIX", "Dashboard"]

PREFIX: Final = "/dashboard"

_MOST_VIEWERS: Final = 100
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_SECURITY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SIGN_IN: Final = "Sign in: open the link that kubesched printed; it works once.\n"


class Dashboard:
    """Handles requests below `PREFIX`.

    If `sign_in` is None, the server authorizes requests. Without a `hub` there is no stream: the
    page requests moments of a timeline instead.
    """

    def __init__(self, queries: PageQueries, sign_in: SignIn | None, hub: FrameHub | None) -> None:
        self._queries = queries
        self._sign_in = sign_in
        self._hub = hub
        self._files = resources.files("kubesched.dashboard") / "static"

    async def answer(self, request: Request) -> Response:
        """Respond to a request whose path begins with the prefix."""
        path, refusal = self._admitted(request)
        if refusal is not None:
            return refusal
        if path.startswith("/api/"):
            return await self._api(request, path.removeprefix("/api/"))
        if request.method not in ("GET", "HEAD"):
            return _text(405, "read-only\n")
        if not path:
            # Relative, since a proxy may serve the page under a prefix.
            return _redirect(f".{PREFIX}/")
        return self._file(path.lstrip("/") or "index.html")

    def _admitted(self, request: Request) -> tuple[str, Response | None]:
        """Return the path below the page, or the response that ends the request early."""
        path, sign_in = request.path.removeprefix(PREFIX), self._sign_in
        if sign_in is not None and not sign_in.is_known_host(request.headers.get("Host")):
            return path, _text(421, "unknown host name\n")
        if sign_in is not None and not sign_in.is_open:
            name, slash, rest = path.removeprefix("/").partition("/")
            if not sign_in.is_own_folder(name):
                return path, _led_to_folder(sign_in, path, request)
            path = slash + rest
            if (refusal := _signed_in(sign_in, path, request)) is not None:
                return path, refusal
        if request.method not in ("GET", "HEAD"):
            rule, headers = sign_in or _ANY_NAME, request.headers
            if not rule.is_own_origin(headers.get("Origin"), headers.get("Host")):
                text = "requests that change something must come from the page itself\n"
                return path, _text(403, text)
        return path, None

    def _file(self, name: str) -> Response:
        suffix = name[name.rfind(".") :]
        place = self._files
        for part in name.split("/"):
            if part in ("", ".", ".."):
                return _text(404, "no such page\n")
            place = place / part
        if suffix not in _TYPES or not place.is_file():
            return _text(404, "no such page\n")
        return Response(body=place.read_bytes(), content_type=_TYPES[suffix], headers=_SECURITY)

    async def _api(self, request: Request, path: str) -> Response:
        try:
            if request.method == "GET":
                if path == "stream":
                    return self._streamed()
                return _json(await self._queries.get(path, dict(request.query)))
            if request.method == "POST":
                return _json(await self._queries.post(path, await _body(request)))
        except (BadRequestError, BadRequest) as error:
            return _json({"error": str(error)}, error.status)
        except KubeschedError as error:
            return _json({"error": str(error)}, 400)
        return _text(405, "only GET and POST\n")

    def _streamed(self) -> Response:
        """Send frames as server-sent events.

        A viewer gets the next frame when it has received the last.
        """
        hub = self._hub
        if hub is None:
            raise BadRequestError("this page has no stream: request moments", 404)
        if hub.viewers >= _MOST_VIEWERS:
            return _text(503, "too many viewers\n")
        return Response(
            content_type="text/event-stream", headers=_SECURITY, stream=self._frames(hub)
        )

    async def _frames(self, hub: FrameHub) -> AsyncGenerator[bytes, None]:
        hub.join()
        last = 0
        try:
            while True:
                last, frame = await hub.next(last)
                yield frame
        finally:
            hub.leave()


# For requests that another server has authorized: it checks host names itself.
_ANY_NAME: Final = SignIn()


def _led_to_folder(sign_in: SignIn, path: str, request: Request) -> Response:
    """Redirect a link to the folder of the page; its name is a secret."""
    token = request.query.get("token")
    if path == "/" and request.method == "GET" and sign_in.is_issued(token):
        return _redirect(f"./{sign_in.folder}/?token={token}")
    return _text(401, _SIGN_IN)


def _signed_in(sign_in: SignIn, path: str, request: Request) -> Response | None:
    """Return None for a request with a session; otherwise a refusal, or the end of a sign-in."""
    has_session = sign_in.is_signed_in(request.headers.get("Cookie"))
    tokens = request.query.all("token")
    if not tokens or request.method != "GET":
        if not has_session:
            return _text(401, _SIGN_IN)
        return None if path else _redirect(f"./{sign_in.folder}/")
    session = sign_in.redeem(tokens[0])
    if session is None:
        return _redirect("./") if has_session else _text(401, _SIGN_IN)
    # Without a path the browser uses the folder of the page from its own point of view.
    secure = "; Secure" if sign_in.is_secure else ""
    cookie = f"{sign_in.cookie}={session}; HttpOnly; SameSite=Strict{secure}"
    return _redirect("./").with_headers(Set_Cookie=cookie)


async def _body(request: Request) -> Mapping[str, Any]:
    try:
        body = msgspec.json.decode(await request.read_body() or b"{}")
    except msgspec.DecodeError as error:
        raise BadRequestError(f"invalid JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequestError("expected an object")
    return body


def _json(value: Any, status: int = 200) -> Response:
    body = msgspec.json.encode(value)
    return Response(status=status, body=body, content_type=_JSON, headers=_SECURITY)


def _text(status: int, text: str) -> Response:
    return Response(status=status, body=text.encode(), content_type=_TEXT, headers=_SECURITY)


def _redirect(where: str) -> Response:
    return Response(status=303, headers={**_SECURITY, "Location": where})
