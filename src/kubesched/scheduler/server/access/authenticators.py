"""Authentication of a request by a chain of authenticators (docs/reference/02 §3.3).

Each authenticator returns the user, returns None, or raises an error because the credentials are
invalid. The first user wins. Invalid credentials are refused even for paths that need none. A
request without credentials is anonymous.
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
    """Credentials are invalid, or could not be checked."""


class Authenticator(Protocol):
    async def authenticate(self, request: Request) -> CallerIdentity | None:
        """Return the user, or None for no opinion. Raises AuthenticationError."""
        ...


class AuthenticatorChain:
    """Calls authenticators one after the other."""

    def __init__(self, authenticators: Sequence[Authenticator] = ()) -> None:
        self._authenticators = tuple(authenticators)

    async def authenticate(self, request: Request) -> CallerIdentity:
        """Return the user of a request; without credentials the anonymous one.

        Raises:
            AuthenticationError: the request has credentials, and none of them is valid.
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
