"""Sign-in of browsers, which cannot send bearer tokens, on the secure port.

Below one path, the password of HTTP Basic authentication is used as a bearer token; the user name
is ignored. Authentication and authorization follow as for any token. A request without credentials
gets a challenge instead of a refusal. There is no session: the browser sends the password with
every request.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from msgspec.structs import replace

from kubesched.foundation.http.http_messages import TEXT, Handler, Headers, Request, Response

__all__ = ["SIGN_IN", "with_browser_sign_in"]

SIGN_IN: Final = "Sign in: any user name, and a token of the cluster as the password.\n"
_ASKED: Final = 'Basic realm="kubesched: any name, and a token as the password", charset="UTF-8"'
_REFUSED: Final = (401, 403)


def with_browser_sign_in(answer: Handler, prefix: str) -> Handler:
    """Wrap a handler so that browsers can sign in below the prefix."""

    async def answered(request: Request) -> Response:
        if request.path != prefix and not request.path.startswith(f"{prefix}/"):
            return await answer(request)
        response = await answer(_with_token(request))
        is_stranger = not request.headers.get("Authorization") and not request.certificates
        if response.status == 401 or (is_stranger and response.status in _REFUSED):
            asked = {"WWW-Authenticate": _ASKED, "Cache-Control": "no-store"}
            return Response(status=401, body=SIGN_IN.encode(), content_type=TEXT, headers=asked)
        return response

    return answered


def _with_token(request: Request) -> Request:
    """Return the request with its password as a bearer token, if it has a password."""
    scheme, _, given = request.headers.get("Authorization").partition(" ")
    if scheme.lower() != "basic":
        return request
    try:
        decoded = base64.b64decode(given, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return request
    _, _, password = decoded.partition(":")
    others = [field for field in request.headers if field[0] != "authorization"]
    fields = [*others, ("authorization", f"Bearer {password}")]
    return replace(request, headers=Headers(fields))
