"""URLs and their parts."""

from __future__ import annotations

import re
from typing import ClassVar, Final
from urllib.parse import quote, unquote_plus

import msgspec

from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.declarations import Library, by_size
from kubesched.foundation.cel.language.expression_types import BOOL, STRING, list_of, map_of, named

__all__ = ["URL", "URLS", "parse_url"]

URLS: Final = Library()
URL: Final = named("kubernetes.URL")
_ONCE: Final = by_size(0.1)

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"]|[^\x00-\x7f]|%[0-9A-Fa-f]{2})*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
# Characters that Go does not escape in a path; the rest is escaped unless it was already.
_PATH_SAFE: Final = "/$&+,:;=@!'()*%[]"


class Url(msgspec.Struct, frozen=True):
    """A URL as a value of the language."""

    cel_type: ClassVar[str] = "kubernetes.URL"
    equals_own_type_only: ClassVar[bool] = True

    text: str
    scheme: str
    host: str
    path: str
    query: str


def parse_url(text: str) -> Url:
    """Read an absolute URL or an absolute path.

    Raises:
        EvaluationError: it is neither.
    """
    if not text:
        raise _wrong(text, "empty url")
    if _CONTROL.search(text):
        raise _wrong(text, "invalid control character in URL")
    rest, scheme = text, ""
    if match := _SCHEME.fullmatch(text):
        scheme, rest = match[1].lower(), match[2]
    elif text.startswith(":"):
        raise _wrong(text, "missing protocol scheme")
    if not rest.startswith("/"):
        raise _wrong(text, "invalid URI for request")
    rest = rest.partition("#")[0]
    rest, _, query = rest.partition("?")
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host = _host(text, authority)
        rest = slash + path
    if wrong := _ESCAPE.search(rest):
        escape = rest[wrong.start() : wrong.start() + 3]
        raise _wrong(text, f'invalid URL escape "{escape}"')
    return Url(text, scheme, host, rest, query)


def _wrong(text: str, reason: str) -> EvaluationError:
    return EvaluationError(
        f'URL parse error during conversion from string: parse "{text}": {reason}'
    )


def _host(text: str, authority: str) -> str:
    host = authority.rpartition("@")[2]
    if host.startswith("["):
        if "]" not in host:
            raise _wrong(text, "missing ']' in host")
        port = host[host.rindex("]") + 1 :]
    else:
        colon = host.find(":")
        port = host[colon:] if colon >= 0 else ""
    if not _PORT.fullmatch(port):
        raise _wrong(text, f'invalid port "{port}" after host')
    if not _HOST.fullmatch(host):
        found = _HOST.match(host)
        bad = host[found.end()] if found else host[:1]
        raise _wrong(text, f'invalid character "{bad}" in host name')
    return host


@URLS.function("url", STRING, result=URL, cost=_ONCE)
def _url(text: str) -> Url:
    return parse_url(text)


@URLS.function("isURL", STRING, result=BOOL, cost=_ONCE)
def _is_url(text: str) -> bool:
    try:
        parse_url(text)
    except EvaluationError:
        return False
    return True


@URLS.method("getScheme", URL, result=STRING)
def _scheme(url: Url) -> str:
    return url.scheme


@URLS.method("getHost", URL, result=STRING)
def _full_host(url: Url) -> str:
    return url.host


@URLS.method("getHostname", URL, result=STRING)
def _hostname(url: Url) -> str:
    if url.host.startswith("["):
        return url.host[1 : url.host.index("]")]
    return url.host.partition(":")[0]


@URLS.method("getPort", URL, result=STRING)
def _port(url: Url) -> str:
    after = url.host.rpartition("]")[2] if url.host.startswith("[") else url.host
    return after.partition(":")[2]


@URLS.method("getEscapedPath", URL, result=STRING)
def _escaped_path(url: Url) -> str:
    return quote(url.path, safe=_PATH_SAFE)


@URLS.method("getQuery", URL, result=map_of(STRING, list_of(STRING)))
def _query(url: Url) -> dict[str, list[str]]:
    parsed: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        key, _, value = pair.partition("=")
        if pair and ";" not in pair and not _ESCAPE.search(pair):
            parsed.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return parsed
