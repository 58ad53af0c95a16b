"""Who asks (docs/reference/02 §3.3).

Several authenticators look at a request. Each knows the user, has no opinion, or finds the
credentials wrong. The first that knows wins; wrong credentials are refused even where nobody
would have needed any; a request without credentials is anonymous.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import Request
from kubesched.scheduler.server.access.user import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    CallerIdentity,
)

__all__ = ["AuthenticationError", "Authenticator", "AuthenticatorChain"]


class AuthenticationError(KubeschedError):
    """Credentials that are wrong, or that could not be checked."""


class Authenticator(Protocol):
    async def authenticate(self, request: Request) -> CallerIdentity | None:
        """The user, or None without an opinion. Raises AuthenticationError."""
        ...


class AuthenticatorChain:
    """Asks one authenticator after the other."""

    def __init__(self, authenticators: Sequence[Authenticator] = ()) -> None:
        self._authenticators = tuple(authenticators)

    async def authenticate(self, request: Request) -> CallerIdentity:
        """The user who asks, perhaps the anonymous one.

        Raises:
            AuthenticationError: there were credentials, and none was good.
        """
        problems: list[str] = []
        for authenticator in self._authenticators:
            try:
                user = await authenticator.authenticate(request)
            except AuthenticationError as exc:
                problems.append(str(exc))
                continue
            if user is not None:
                return _with_group(user)
        if problems:
            raise AuthenticationError(
                problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            )
        return ANONYMOUS


def _with_group(user: CallerIdentity) -> CallerIdentity:
    if user.name == ANONYMOUS.name or not {AUTHENTICATED, UNAUTHENTICATED}.isdisjoint(user.groups):
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))
