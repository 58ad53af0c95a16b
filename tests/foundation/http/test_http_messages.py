"""A request's target is decoded once and not normalized."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.foundation.http.http_messages import BadRequest, Headers, parse_target

GOOD = {
    "a plain path": ("/metrics", "/metrics", ()),
    "an escaped letter is that letter": ("/%6detrics", "/metrics", ()),
    "escapes are undone once": ("/%256detrics", "/%6detrics", ()),
    "dots stay": ("/healthz/../metrics", "/healthz/../metrics", ()),
    "slashes stay": ("//metrics//", "//metrics//", ()),
    "an escaped question mark is no query": ("/a%3Fb", "/a?b", ()),
    "a query key without a value": ("/livez?verbose", "/livez", (("verbose", ""),)),
    "repeated keys": ("/livez?a=1&a=2", "/livez", (("a", "1"), ("a", "2"))),
    "a plus in a query is a blank": ("/livez?a=1+2", "/livez", (("a", "1 2"),)),
    "a pair with a semicolon is dropped": ("/livez?a=1;b=2&c=3", "/livez", (("c", "3"),)),
    "an absolute target": ("https://host:1/metrics?x=1", "/metrics", (("x", "1"),)),
    "an absolute target without a path": ("http://host", "/", ()),
    "the target of OPTIONS": ("*", "*", ()),
    "bytes that are no text": ("/%ff", "/\ufffd", ()),
}


@pytest.mark.parametrize(("target", "path", "query"), GOOD.values(), ids=GOOD)
def test_targets(target: str, path: str, query: tuple[tuple[str, str], ...]) -> None:
    decoded, parameters = parse_target(target)
    assert (decoded, tuple(parameters)) == (path, query)


@pytest.mark.parametrize("target", ["", "metrics", "/%zz", "/%2", "/%", "/a b", "/a\x7f", "/a\n"])
def test_broken_targets_are_refused(target: str) -> None:
    with pytest.raises(BadRequest):
        parse_target(target)


@given(st.text())
def test_random_targets_are_parsed_or_refused(target: str) -> None:
    try:
        path, _ = parse_target(target)
    except BadRequest:
        return
    assert path.startswith("/") or path == "*"


def test_header_names_have_no_case_and_may_repeat() -> None:
    headers = Headers([("X-Remote-Group", "a"), ("x-remote-group", "b")])
    assert headers.all("X-REMOTE-GROUP") == ["a", "b"]
    assert headers.get("x-Remote-group") == "a"
    assert headers.get("absent") == ""
