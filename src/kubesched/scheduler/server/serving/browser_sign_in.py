"""Browsers on the secure port: they cannot send a bearer token, but they can ask for a password.

Below one path, a password of HTTP Basic authentication is taken as a bearer token, whatever the
user's name; who it is and whether they may is decided by everybody else as ever. Somebody without
any credentials is asked for them instead of being refused. Nothing is kept here: the browser sends
the password with every request.
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
    """`answer`, with browsers being let in below the prefix."""

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
    """The request with its password as a bearer token, if it has one."""
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
