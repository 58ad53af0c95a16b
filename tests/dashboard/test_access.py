"""Access to the page: a session, a known host name, and the page's own origin."""

from __future__ import annotations

import io
import re
from typing import Any

import aiohttp
import aiohttp.web
import pytest
from yarl import URL

from kubesched.testing import make_node
from tests.dashboard.page_harness import PageHarness, run

SIGN_IN = "Sign in: open the link that kubesched printed; it works once.\n"


def test_without_a_session_there_is_only_the_sign_in_line() -> None:
    async def work() -> None:
        page = PageHarness(make_node("a"))
        async with page.anonymous_client() as client:
            for path in ("", "api/stream", "assets/index.js", "api/outline", "?token=wrong"):
                async with client.get(page.url + path) as answer:
                    assert (answer.status, await answer.text()) == (401, SIGN_IN)

    run(work)


def test_a_link_works_once_and_its_cookie_stays_valid() -> None:
    async def work() -> None:
        page = PageHarness(make_node("a"))
        async with page.anonymous_client() as client:
            link = f"{page.url}?token={page.sign_in.issue()}"
            async with client.get(link) as answer:
                assert answer.status == 200
                assert answer.url.query_string == ""
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            async with aiohttp.ClientSession() as stranger, stranger.get(link) as answer:
                assert answer.status == 401
            async with client.get(f"{page.url}api/nodes/a") as answer:
                assert answer.status == 200

    run(work)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[broken"}, 403),
        ({}, 403),
    ],
    ids=["forged host", "another origin", "no page", "broken origin", "no origin at all"],
)
def test_a_request_from_elsewhere_is_refused(headers: dict[str, str], status: int) -> None:
    async def work() -> None:
        page = PageHarness(make_node("a"))
        async with page.signed_in_client() as client:
            url = f"{page.url}api/whatif"
            async with client.post(url, json={"drain": ["a"]}, headers=headers) as answer:
                assert answer.status == status

    run(work)


def test_a_request_with_a_forged_host_is_refused() -> None:
    async def work() -> None:
        page = PageHarness(make_node("a"))
        async with page.signed_in_client() as client:
            headers = {"Host": "evil.example"}
            async with client.get(f"{page.url}api/nodes/a", headers=headers) as answer:
                assert answer.status == 421

    run(work)


def test_the_cookie_is_for_a_folder_that_only_a_link_names() -> None:
    async def work() -> None:
        page = PageHarness(make_node("a"))
        async with page.anonymous_client() as client:
            for path in ("", "?token=wrong", "~x/", f"?token={page.sign_in.folder}", "api/outline"):
                async with client.get(page.entrance + path, allow_redirects=False) as answer:
                    assert (answer.status, await answer.text()) == (401, SIGN_IN)
                    assert not answer.cookies
            link = f"{page.entrance}?token={page.sign_in.issue()}"
            async with client.get(link, allow_redirects=False) as answer:
                assert not answer.cookies
                folder = answer.headers["Location"]
                assert folder.startswith("./~")
            async with client.get(link) as answer:
                assert str(answer.url) == page.url
            # A browser sends it for no other path of this host, on any port.
            elsewhere = URL(page.entrance)
            assert not client.cookie_jar.filter_cookies(elsewhere)
            assert client.cookie_jar.filter_cookies(URL(page.url))
            # A link that was used leads its browser to the page again, and no other browser.
            async with client.get(link) as answer:
                assert (answer.status, str(answer.url)) == (200, page.url)

    run(work)


def test_pages_on_one_host_have_separate_sessions() -> None:
    async def work() -> None:
        first, second = PageHarness(make_node("a")), PageHarness(make_node("b"))
        async with first.anonymous_client() as client, second.server:
            for page in (first, second):
                async with client.get(f"{page.entrance}?token={page.sign_in.issue()}") as answer:
                    assert answer.status == 200
            for page, name in ((first, "a"), (second, "b")):
                async with client.get(f"{page.url}api/nodes/{name}") as answer:
                    assert answer.status == 200
            assert first.sign_in.cookie != second.sign_in.cookie
            session = next(iter(first.sign_in._sessions))
            assert first.sign_in.is_signed_in(f"{first.sign_in.cookie}={session}")
            assert not second.sign_in.is_signed_in(f"{second.sign_in.cookie}={session}")

    run(work)


def test_the_cookie_is_for_this_page_alone() -> None:
    async def work() -> None:
        page = PageHarness(make_node("a"))
        async with page.anonymous_client() as client:
            link = f"{page.url}?token={page.sign_in.issue()}"
            async with client.get(link, allow_redirects=False) as answer:
                cookie = answer.headers["Set-Cookie"]
        # Without a path attribute it is valid for the folder of the address in the browser.
        assert "HttpOnly; SameSite=Strict" in cookie
        assert "Path" not in cookie

    run(work)


def test_files_outside_the_page_are_not_served() -> None:
    async def work() -> None:
        page = PageHarness(make_node("a"))
        async with page.signed_in_client() as client:
            for path in ("..%2fdashboard.py", "assets/../../dashboard.py", "dashboard.py", "%00"):
                async with client.get(page.url + path, allow_redirects=False) as answer:
                    assert answer.status in (303, 400, 401, 404)
                    assert b"Dashboard" not in await answer.read()

    run(work)


@pytest.mark.parametrize(
    ("raw", "status"),
    [(b"[1]", 400), (b"{", 400), (b"x" * (1 << 21), 413)],
    ids=["not an object", "not JSON", "too large"],
)
def test_odd_bodies_are_answered(raw: bytes, status: int) -> None:
    async def work() -> None:
        page = PageHarness(make_node("a"))
        async with page.signed_in_client() as client:
            headers = {"Origin": page.server.url}
            url = f"{page.url}api/whatif"
            async with client.post(url, data=io.BytesIO(raw), headers=headers) as answer:
                assert answer.status == status

    run(work)


def test_the_page_works_behind_a_path_of_a_proxy() -> None:
    """The browser talks to the proxy alone: every address must hold there."""

    async def work() -> None:
        async with aiohttp.ClientSession() as upstream:
            proxied: dict[str, Any] = {}

            async def forward(request: aiohttp.web.BaseRequest) -> aiohttp.web.StreamResponse:
                page, strips = proxied["page"], proxied["strips"]
                path = request.raw_path
                assert path.startswith("/tools/kubesched")
                if strips:
                    path = path.removeprefix("/tools/kubesched")
                # As with proxies: Host is the name of the server behind it, Origin that of the
                # browser's page.
                headers = {
                    name: request.headers[name]
                    for name in ("Cookie", "Origin", "Content-Type")
                    if name in request.headers
                }
                async with upstream.request(
                    request.method,
                    page.server.url + path,
                    headers=headers,
                    data=await request.read() if request.method == "POST" else None,
                    allow_redirects=False,
                ) as answer:
                    kept = {
                        name: value
                        for name, value in answer.headers.items()
                        if name in ("Location", "Set-Cookie", "Content-Type")
                    }
                    body = await answer.read()
                    return aiohttp.web.Response(status=answer.status, body=body, headers=kept)

            runner = aiohttp.web.ServerRunner(aiohttp.web.Server(forward))
            await runner.setup()
            place = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
            await place.start()
            public = f"http://127.0.0.1:{runner.addresses[0][1]}/tools/kubesched"
            try:
                for strips in (True, False):
                    page = PageHarness(make_node("a"), public_url=public, path="/tools/kubesched")
                    proxied.update(page=page, strips=strips)
                    jar = aiohttp.CookieJar(unsafe=True)
                    async with page.server, aiohttp.ClientSession(cookie_jar=jar) as browser:
                        await _use(browser, f"{public}/dashboard", page.sign_in.issue())
            finally:
                await runner.cleanup()

    async def _use(browser: aiohttp.ClientSession, page: str, token: str) -> None:
        async with browser.get(f"{page}/?token={token}") as answer:
            assert answer.status == 200
            assert re.fullmatch(f"{page}/~[A-Za-z0-9_-]+/", str(answer.url))
            page = str(answer.url).removesuffix("/")
            assert 'src="./assets/' in await answer.text()
        async with browser.get(page) as answer:
            assert str(answer.url) == f"{page}/"
        async with browser.get(f"{page}/api/nodes/a") as answer:
            assert (await answer.json())["name"] == "a"
        origin = {"Origin": page.partition("/tools")[0]}
        plan = {"add": 1, "like": "a"}
        async with browser.post(f"{page}/api/whatif", json=plan, headers=origin) as answer:
            assert answer.status == 200
        forged = {"Origin": "http://evil.example"}
        async with browser.post(f"{page}/api/whatif", json=plan, headers=forged) as answer:
            assert answer.status == 403

    run(work)
