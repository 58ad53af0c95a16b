"""Impersonation: a request that acts as another user (the `Impersonate-*` headers)."""

from __future__ import annotations

from urllib.parse import unquote

from kubesched.cluster.apiserver.http.users import Attributes, Requester, Users
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.foundation.http.http_messages import Request

__all__ = ["impersonated_user"]

_USER, _GROUP, _UID = "impersonate-user", "impersonate-group", "impersonate-uid"
_EXTRA = "impersonate-extra-"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_ANONYMOUS = "system:anonymous"


def impersonated_user(request: Request, user: Requester, users: Users) -> Requester:
    """Return the user that a request impersonates, or the user who sent it.

    Raises:
        ApiError: 403, the sender may not impersonate that user; 400, the headers name no user.
    """
    headers = request.headers
    name = headers.get(_USER)
    if not name:
        if any(header.startswith("impersonate-") for header, _ in headers):
            raise api_errors.bad_request("requested impersonation without impersonating a user")
        return user
    groups = tuple(each for each in headers.all(_GROUP) if each)
    extra = {
        unquote(header[len(_EXTRA) :]): tuple(headers.all(header))
        for header, _ in headers
        if header.startswith(_EXTRA)
    }
    uid = headers.get(_UID)
    for attributes in _required_permissions(name, groups, uid, extra):
        users.authorize(user, attributes)
    if not groups:
        groups = _default_groups(name)
    return Requester(name, uid, groups, extra)


def _required_permissions(
    name: str, groups: tuple[str, ...], uid: str, extra: dict[str, tuple[str, ...]]
) -> list[Attributes]:
    """List the permissions that the impersonating user needs."""
    verb, group = "impersonate", "authentication.k8s.io"
    if name.startswith(_SERVICE_ACCOUNT):
        namespace, _, account = name.removeprefix(_SERVICE_ACCOUNT).partition(":")
        required = [Attributes(verb, "", "serviceaccounts", namespace=namespace, name=account)]
    else:
        required = [Attributes(verb, "", "users", name=name)]
    required += [Attributes(verb, "", "groups", name=each) for each in groups]
    if uid:
        required.append(Attributes(verb, group, "uids", name=uid))
    for key, values in extra.items():
        required += [Attributes(verb, group, "userextras", key, name=value) for value in values]
    return required


def _default_groups(name: str) -> tuple[str, ...]:
    """Return the groups of a user for whom the request names no groups."""
    if name.startswith(_SERVICE_ACCOUNT):
        namespace = name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return ("system:unauthenticated",) if name == _ANONYMOUS else ()
