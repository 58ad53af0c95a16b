"""Requests in somebody else's name."""

from __future__ import annotations

from urllib.parse import unquote

from kubesched.cluster.apiserver.http.request_and_answer import Request
from kubesched.cluster.apiserver.http.users import Attributes, Requester, Users
from kubesched.cluster.apiserver.rules.errors import api_errors

__all__ = ["impersonated"]

_USER, _GROUP, _UID = "impersonate-user", "impersonate-group", "impersonate-uid"
_EXTRA = "impersonate-extra-"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_ANONYMOUS = "system:anonymous"


def impersonated(request: Request, user: Requester, users: Users) -> Requester:
    """Whom a request is made for: whoever sends it, or whom they say.

    Raises:
        ApiError: 403, they may not speak for that one; 400, they do not say for whom.
    """
    headers = request.headers
    name = headers.get(_USER, "")
    if not name:
        if any(header.startswith("impersonate-") for header in headers):
            raise api_errors.bad_request("requested impersonation without impersonating a user")
        return user
    groups = tuple(each for each in headers.get(_GROUP, "").split("\n") if each)
    extra = {
        unquote(header[len(_EXTRA) :]): tuple(value.split("\n"))
        for header, value in headers.items()
        if header.startswith(_EXTRA)
    }
    uid = headers.get(_UID, "")
    for wanted in _wanted(name, groups, uid, extra):
        users.authorize(user, wanted)
    if not groups:
        groups = _groups_of(name)
    return Requester(name, uid, groups, extra)


def _wanted(
    name: str, groups: tuple[str, ...], uid: str, extra: dict[str, tuple[str, ...]]
) -> list[Attributes]:
    """What somebody must be allowed to do."""
    verb, group = "impersonate", "authentication.k8s.io"
    if name.startswith(_SERVICE_ACCOUNT):
        namespace, _, account = name.removeprefix(_SERVICE_ACCOUNT).partition(":")
        wanted = [Attributes(verb, "", "serviceaccounts", namespace=namespace, name=account)]
    else:
        wanted = [Attributes(verb, "", "users", name=name)]
    wanted += [Attributes(verb, "", "groups", name=each) for each in groups]
    if uid:
        wanted.append(Attributes(verb, group, "uids", name=uid))
    for key, values in extra.items():
        wanted += [Attributes(verb, group, "userextras", key, name=value) for value in values]
    return wanted


def _groups_of(name: str) -> tuple[str, ...]:
    """What somebody belongs to when nothing is said about it."""
    if name.startswith(_SERVICE_ACCOUNT):
        namespace = name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return ("system:unauthenticated",) if name == _ANONYMOUS else ()
