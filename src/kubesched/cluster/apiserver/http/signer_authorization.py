"""Authorization to approve and to sign certificate requests, which depends on the signer.

The user needs the verb `approve` or `sign` for the resource `signers` with the name of the signer,
or with `DOMAIN/*`.
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.http.users import Attributes, Requester, Users
from kubesched.cluster.apiserver.rules.errors import api_errors

__all__ = ["check_signer_access"]

Json = dict[str, Any]

_GROUP = "certificates.k8s.io"
_PLURAL = "certificatesigningrequests"


def check_signer_access(
    users: Users, requester: Requester, subresource: str, new: Json, old: Json
) -> None:
    """Refuse an approval, or a change of the status, for a signer. Raises ApiError 403."""
    if subresource == "approval":
        verb = "approve"
    elif subresource == "status" and new.get("status") != old.get("status"):
        verb = "sign"
    else:
        return
    signer = old["spec"].get("signerName") or ""
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        attributes = Attributes(verb, _GROUP, "signers", name=name)
        if users.allows(requester.all_groups, attributes, requester.name):
            return
    text = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise api_errors.forbidden(f"{_PLURAL}.{_GROUP}", old["metadata"]["name"], text)
