"""Browsers on the secure port: the password is a token, and 401 asks for one."""

from __future__ import annotations

import asyncio
import base64

import pytest

from kubesched.foundation.http.http_messages import Headers, Request, Response
from kubesched.scheduler.server.serving.browser_sign_in import with_browser_sign_in


def answered(path: str, authorization: str = "", certificates: tuple[bytes, ...] = ()) -> Response:
    """Return the response of a server with one valid token, and the request that it received."""

    async def server(request: Request) -> Response:
        given = request.headers.get("Authorization")
        if given == "Bearer right:er":
            return Response(body=b"welcome")
        return Response(status=401 if given else 403, body=b"refused")

    fields = [("Authorization", authorization)] if authorization else []
    request = Request(
        method="GET", target=path, path=path, headers=Headers(fields), certificates=certificates
    )
    return asyncio.run(with_browser_sign_in(server, "/page")(request))


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def test_a_password_is_a_token_whatever_the_name() -> None:
    assert answered("/page/", basic("me:right:er")).body == b"welcome"
    assert answered("/page/", basic(":right:er")).body == b"welcome"
    assert answered("/page", "Bearer right:er").body == b"welcome"


@pytest.mark.parametrize("authorization", ["", "Basic", "Basic ???", basic("me:wrong"), "Bearer x"])
def test_other_servers_get_requests_without_credentials(authorization: str) -> None:
    answer = answered("/page/x", authorization)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic")
    assert b"refused" not in answer.body


def test_a_refused_user_is_cached() -> None:
    answer = answered("/page/x", certificates=(b"mine",))
    assert (answer.status, answer.body) == (403, b"refused")


def test_passwords_are_refused_on_other_paths() -> None:
    assert answered("/metrics", basic("me:right:er")).body == b"refused"
    assert answered("/pages", basic("me:right:er")).body == b"refused"
