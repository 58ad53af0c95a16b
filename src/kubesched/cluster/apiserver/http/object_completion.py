"""Completion of new objects with data of the requester and of the service account."""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.http.users import Requester
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.service_account_mounts import (
    apply_service_account,
    is_mirror,
)
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["complete_document"]

Json = dict[str, Any]

_REQUESTER = frozenset({"username", "uid", "groups", "extra"})


def complete_document(
    store: Store, resource: Resource, namespace: str, document: Json, requester: Requester
) -> Json:
    """Return the document with the fields that the server itself sets."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return document
    if resource.group_resource == "pods":
        return _with_account(store, namespace, document, spec)
    if resource.kind == "CertificateSigningRequest":
        return {**document, "spec": _signed(spec, requester)}
    return document


def _with_account(store: Store, namespace: str, pod: Json, spec: Json) -> Json:
    """Add the token volume and image pull secrets of the pod's service account.

    A namespace without the account `default` has just been created, or there are no controllers.

    Raises:
        ApiError: 403, the account does not exist.
    """
    name = spec.get("serviceAccountName")
    if not isinstance(name, str) or not name:
        name = "default"
    account = store.find("serviceaccounts", f"{namespace}/{name}")
    if account is None:
        if name != "default" and not is_mirror(pod):
            raise api_errors.missing_account(pod.get("metadata") or {}, namespace, name)
        return pod
    return apply_service_account(pod, account)


def _signed(spec: Json, user: Requester) -> Json:
    """Set the user in a certificate signing request; a user in the request body is ignored."""
    shown = user.document()
    shown["extra"] = {key: list(values) for key, values in user.extra.items()}
    own = {key: value for key, value in spec.items() if key not in _REQUESTER}
    return {**own, **{key: value for key, value in shown.items() if value}}
