"""Authentication by client certificate or bearer token, and authorization.

A certificate identifies the user in its subject, a token a user or a service account. Without an
authorizer, users may do everything, except that members of the group `VIEWERS` may only read. A
server without tokens treats every request as one of the administrator.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.rbac_rules import Attributes, Subject

__all__ = [
    "ADMIN",
    "AUDIENCE",
    "VIEWERS",
    "Attributes",
    "Requester",
    "RoleAuthorizer",
    "TokenIdentity",
    "Users",
]

VIEWERS = "kubesched:viewers"
# The audience of the API server, which accepts only tokens with this audience.
AUDIENCE = "https://localhost"
_MASTERS = "system:masters"
_AUTHENTICATED = "system:authenticated"
_UNAUTHENTICATED = "system:unauthenticated"
_READING = frozenset({"get", "list", "watch"})
_BEARER = "bearer "
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
# These reviews change nothing. All users may create them, viewers too.
_SELF_REVIEWS = frozenset(
    {"selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"}
)


class Requester(msgspec.Struct, frozen=True):
    """The user of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def all_groups(self) -> tuple[str, ...]:
        """The groups of the user, and the group of all authenticated users."""
        if _AUTHENTICATED in self.groups or _UNAUTHENTICATED in self.groups:
            return self.groups
        return (*self.groups, _AUTHENTICATED)

    def document(self) -> dict[str, object]:
        """Return the user in the form that reviews have."""
        shown: dict[str, object] = {"username": self.name, "groups": list(self.all_groups)}
        if self.uid:
            shown["uid"] = self.uid
        if self.extra:
            shown["extra"] = self.extra
        return shown


class TokenIdentity(msgspec.Struct, frozen=True):
    """The user of a token, and the audiences that the token is for."""

    user: Requester
    audiences: tuple[str, ...] = (AUDIENCE,)


ADMIN = Requester("admin", "admin", (_MASTERS,))


class RoleAuthorizer(Protocol):
    """Decides whether a subject may make a request."""

    def allows(self, subject: Subject, attributes: Attributes) -> bool: ...


class Users:
    """The users of a server, by their tokens."""

    def __init__(self, tokens: Mapping[str, Requester] | None = None) -> None:
        """If `tokens` is None, every request is one of the administrator."""
        self._tokens = None if tokens is None else dict(tokens)
        # Identifies the user of a token that the server itself issued.
        self.issued: Callable[[str], TokenIdentity | None] = lambda _token: None
        # Authorizes requests; None if there is no RBAC.
        self.authorizer: RoleAuthorizer | None = None

    def authenticate(self, authorization: str, certificates: Sequence[bytes] = ()) -> Requester:
        """Return the user of a verified certificate, or that an Authorization header identifies.

        Raises ApiError 401.
        """
        if self._tokens is None:
            return ADMIN
        if certificates and (user := _certificate_user(certificates[0])) is not None:
            return user
        if authorization[: len(_BEARER)].lower() == _BEARER:
            identity = self.by_token(authorization[len(_BEARER) :].strip())
            if identity is not None and AUDIENCE in identity.audiences:
                return identity.user
        raise api_errors.unauthorized()

    def by_token(self, token: str) -> TokenIdentity | None:
        """Return the user of a token for any audience, or None if the token is invalid."""
        try:
            encoded = token.encode()
        except UnicodeEncodeError:
            return None  # the header was not valid UTF-8
        for known, user in (self._tokens or {}).items():
            if hmac.compare_digest(known.encode(), encoded):
                return TokenIdentity(user)
        return self.issued(token)

    def allows(self, groups: tuple[str, ...], attributes: Attributes, name: str = "") -> bool:
        if self.authorizer is not None:
            return self.authorizer.allows(Subject(name, groups), attributes)
        if _UNAUTHENTICATED in groups:
            return False
        if VIEWERS not in groups or _MASTERS in groups:
            return True
        return attributes.verb in _READING or attributes.plural in _SELF_REVIEWS

    def authorize(self, user: Requester, attributes: Attributes) -> None:
        """Raises ApiError 403 if the user may not make the request."""
        if not self.allows(user.all_groups, attributes, user.name):
            raise _denied(user, attributes)


@functools.lru_cache(maxsize=256)
def _certificate_user(certificate: bytes) -> Requester | None:
    """Return the user of a certificate; None if its subject has no common name."""
    # Imported here: most clusters have no certificates for clients, and the import takes long.
    from kubesched.foundation.http.client_authority import certificate_subject

    subject = certificate_subject(certificate)
    if not subject.common_name:
        return None
    digest = hashlib.sha256(certificate).hexdigest()
    extra = {_CREDENTIAL_ID: (f"X509SHA256={digest}",)}
    return Requester(subject.common_name, "", subject.organizations, extra)


def _denied(user: Requester, attributes: Attributes) -> ApiError:
    who = f'User "{user.name}" cannot {attributes.verb}'
    if not attributes.plural:
        message = f'forbidden: {who} path "{attributes.path}"'
        return api_errors.access_denied("", "", message)
    plural = f"{attributes.plural}.{attributes.group}" if attributes.group else attributes.plural
    resource = attributes.plural + (f"/{attributes.subresource}" if attributes.subresource else "")
    subject = f'{plural} "{attributes.name}"' if attributes.name else plural
    message = (
        f'{subject} is forbidden: {who} resource "{resource}" in API group "{attributes.group}" '
        + (
            f'in the namespace "{attributes.namespace}"'
            if attributes.namespace
            else "at the cluster scope"
        )
    )
    return api_errors.access_denied(plural, attributes.name, message)
