"""What a new object gets from who sends it, and from the service account that it names."""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.http.users import Requester
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.service_account_mounts import with_service_account
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["completed"]

Json = dict[str, Any]

_REQUESTER = frozenset({"username", "uid", "groups", "extra"})


def completed(
    store: Store, resource: Resource, namespace: str, document: Json, requester: Requester
) -> Json:
    """A document as it is to be created."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return document
    if resource.group_resource == "pods":
        return _with_account(store, namespace, document, spec)
    if resource.kind == "CertificateSigningRequest":
        return {**document, "spec": _signed(spec, requester)}
    return document


def _with_account(store: Store, namespace: str, pod: Json, spec: Json) -> Json:
    """A new pod with what its service account gives it, if there is one."""
    name = spec.get("serviceAccountName")
    if not isinstance(name, str) or not name:
        name = "default"
    account = store.find("serviceaccounts", f"{namespace}/{name}")
    return pod if account is None else with_service_account(pod, account)


def _signed(spec: Json, user: Requester) -> Json:
    """A request for a certificate, with who makes it; nobody can say to be another."""
    shown = user.document()
    shown["extra"] = {key: list(values) for key, values in user.extra.items()}
    own = {key: value for key, value in spec.items() if key not in _REQUESTER}
    return {**own, **{key: value for key, value in shown.items() if value}}
