"""Sign-in to the page: a link with a one-time token, which becomes a session cookie.

A browser sends the cookies of a host to all its ports, and therefore to other programs on this
machine. It sends a cookie only for the path of that cookie. Therefore a page has a path that cannot
be guessed, and a unique cookie name, so that pages do not overwrite each other's sessions.

The Host of a request must be a name of this server, so a forged Host is refused. Requests that
change something must come from the page itself.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

__all__ = ["SignIn"]

_LOOPBACK = frozenset(["localhost", "127.0.0.1", "::1"])
_MOST_SESSIONS = 1000
_MOST_TOKENS = 100


class SignIn:
    """One-time tokens and sessions. With `is_open` no sign-in is needed.

    `public_url` is the address at which a proxy serves the page.
    """

    def __init__(
        self,
        hosts: Collection[str] = (),
        *,
        is_open: bool = False,
        is_secure: bool = False,
        public_url: str = "",
    ) -> None:
        public = urlsplit(public_url)
        named = [public.hostname] if public.hostname else []
        self._hosts = frozenset([*hosts, *named]) | _LOOPBACK
        self._origin = f"{public.scheme}://{public.netloc}" if public.netloc else ""
        # The tokens that were issued, and whether they have been used.
        self._tokens: dict[str, bool] = {}
        self._sessions: dict[str, None] = {}
        self.is_open = is_open
        self.is_secure = is_secure or public.scheme == "https"
        # The name of the folder, and of the cookie. Only the folder is secret.
        self.folder = f"~{secrets.token_urlsafe(16)}"
        self.cookie = f"kubesched-{secrets.token_hex(4)}"

    def issue(self) -> str:
        """Create a token for one sign-in."""
        token = secrets.token_urlsafe(24)
        if len(self._tokens) >= _MOST_TOKENS:
            self._tokens.pop(next(iter(self._tokens)))
        self._tokens[token] = False
        return token

    def is_issued(self, token: str) -> bool:
        """Whether this object has issued the token, which may have been used."""
        return self._issued(token) is not None

    def _issued(self, token: str) -> str | None:
        presented = token.encode("utf-8", "replace")
        for known in self._tokens:
            if hmac.compare_digest(known.encode(), presented):
                return known
        return None

    def is_own_folder(self, name: str) -> bool:
        return hmac.compare_digest(self.folder.encode(), name.encode("utf-8", "replace"))

    def redeem(self, token: str) -> str | None:
        """Exchange a token for a session; None if the token is unknown or used."""
        known = self._issued(token)
        if known is None or self._tokens[known]:
            return None
        self._tokens[known] = True
        session = secrets.token_urlsafe(24)
        if len(self._sessions) >= _MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[session] = None
        return session

    def is_signed_in(self, cookie_header: str) -> bool:
        """Whether the cookies of a request contain a session."""
        if self.is_open:
            return True
        try:
            cookies = SimpleCookie(cookie_header)
        except CookieError:
            return False
        found = cookies.get(self.cookie)
        presented = b"" if found is None else found.value.encode("utf-8", "replace")
        return any(hmac.compare_digest(known.encode(), presented) for known in self._sessions)

    def is_known_host(self, host_header: str) -> bool:
        """Whether the Host of a request is a name of this server."""
        try:
            host = urlsplit(f"//{host_header}").hostname
        except ValueError:
            return False
        return host is not None and host in self._hosts

    def is_own_origin(self, origin: str, host_header: str) -> bool:
        """Whether a request that makes a change comes from the page itself."""
        if not origin:
            return False
        if self._origin and origin == self._origin:
            return True
        try:
            return urlsplit(origin).netloc == host_header
        except ValueError:
            return False
