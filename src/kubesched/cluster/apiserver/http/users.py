"""Who sends a request, and what they may do.

A token names a user; a service account's is checked by whoever issues them. Everybody with a
token may do everything, except that members of `VIEWERS` may only read, unless there are rules
to ask. Without tokens the server asks nobody who they are.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.rbac_rules import Attributes, Subject

__all__ = ["ADMIN", "VIEWERS", "Attributes", "Requester", "RoleAuthorizer", "Users"]

VIEWERS = "kubesched:viewers"
_MASTERS = "system:masters"
_AUTHENTICATED = "system:authenticated"
_UNAUTHENTICATED = "system:unauthenticated"
_READING = frozenset({"get", "list", "watch"})
_BEARER = "bearer "
# Questions, not changes: anybody may ask what they themselves may do.
_SELF_REVIEWS = frozenset(
    {"selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"}
)


class Requester(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def all_groups(self) -> tuple[str, ...]:
        """Its groups, and what everybody with a token belongs to."""
        if _AUTHENTICATED in self.groups or _UNAUTHENTICATED in self.groups:
            return self.groups
        return (*self.groups, _AUTHENTICATED)

    def document(self) -> dict[str, object]:
        """The user as reviews show it."""
        shown: dict[str, object] = {"username": self.name, "groups": list(self.all_groups)}
        if self.uid:
            shown["uid"] = self.uid
        if self.extra:
            shown["extra"] = self.extra
        return shown


ADMIN = Requester("admin", "admin", (_MASTERS,))


class RoleAuthorizer(Protocol):
    """Says who may do what."""

    def allows(self, who: Subject, wanted: Attributes) -> bool: ...


class Users:
    """The users of a server, by their tokens."""

    def __init__(self, tokens: Mapping[str, Requester] | None = None) -> None:
        """Without `tokens` everybody is the administrator."""
        self._tokens = None if tokens is None else dict(tokens)
        # Who is behind a token that the server itself has issued.
        self.issued: Callable[[str], Requester | None] = lambda _token: None
        # Asked what somebody may do, unless nobody has set it.
        self.authorizer: RoleAuthorizer | None = None

    def authenticate(self, authorization: str) -> Requester:
        """The user behind an Authorization header. Raises ApiError 401."""
        if self._tokens is None:
            return ADMIN
        if authorization[: len(_BEARER)].lower() == _BEARER:
            user = self.by_token(authorization[len(_BEARER) :].strip())
            if user is not None:
                return user
        raise api_errors.unauthorized()

    def by_token(self, token: str) -> Requester | None:
        try:
            given = token.encode()
        except UnicodeEncodeError:
            return None  # bytes that are no text
        for known, user in (self._tokens or {}).items():
            if hmac.compare_digest(known.encode(), given):
                return user
        return self.issued(token)

    def allows(self, groups: tuple[str, ...], wanted: Attributes, name: str = "") -> bool:
        if self.authorizer is not None:
            return self.authorizer.allows(Subject(name, groups), wanted)
        if _UNAUTHENTICATED in groups:
            return False
        if VIEWERS not in groups or _MASTERS in groups:
            return True
        return wanted.verb in _READING or wanted.plural in _SELF_REVIEWS

    def authorize(self, user: Requester, wanted: Attributes) -> None:
        """Raises ApiError 403."""
        if not self.allows(user.all_groups, wanted, user.name):
            raise _denied(user, wanted)


def _denied(user: Requester, wanted: Attributes) -> ApiError:
    who = f'User "{user.name}" cannot {wanted.verb}'
    if not wanted.plural:
        message = f'forbidden: {who} path "{wanted.path}"'
        return api_errors.access_denied("", "", message)
    plural = f"{wanted.plural}.{wanted.group}" if wanted.group else wanted.plural
    resource = wanted.plural + (f"/{wanted.subresource}" if wanted.subresource else "")
    subject = f'{plural} "{wanted.name}"' if wanted.name else plural
    message = (
        f'{subject} is forbidden: {who} resource "{resource}" in API group "{wanted.group}" '
        + (f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope")
    )
    return api_errors.access_denied(plural, wanted.name, message)
