"""Namespaces: each gets a default service account and the server's root certificates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubesched.api import Namespace
from kubesched.api.core import ConfigMap, ServiceAccount
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, Patch
from kubesched.cluster.controllers.triggers import OwnChange, RelatedChange

__all__ = ["AUTHORITY_MAP", "DEFAULT_ACCOUNT", "namespace_controller"]

AUTHORITY_MAP = "kube-root-ca.crt"
DEFAULT_ACCOUNT = "default"
_DESCRIPTION = {"kubernetes.io/description": "Whom to trust when talking to the API server."}


def namespace_controller(authority: Callable[[], str]) -> Controller:
    """Build the controller; `authority` returns the certificates that clients need to trust."""

    def plan_namespace(
        objects: ObjectIndex, owner: Namespace, _document: Mapping[str, Any], _now_ns: int
    ) -> ActionPlan:
        if owner.metadata.deletion_timestamp is not None:
            return ActionPlan()
        name = owner.metadata.name
        actions: list[Action] = []
        if objects.find(ServiceAccount, name, DEFAULT_ACCOUNT) is None:
            account = {"metadata": {"name": DEFAULT_ACCOUNT, "namespace": name}}
            actions.append(Create(ServiceAccount, account, optional=True))
        data = {"ca.crt": authority()}
        stored: ConfigMap | None = objects.find(ConfigMap, name, AUTHORITY_MAP)
        if stored is None:
            metadata = {"name": AUTHORITY_MAP, "namespace": name, "annotations": _DESCRIPTION}
            document = {"metadata": metadata, "data": data}
            actions.append(Create(ConfigMap, document, optional=True))
        elif stored.data != data:
            removed = {key: None for key in stored.data if key not in data}
            actions.append(Patch(stored, {"data": {**removed, **data}}))
        return ActionPlan(actions)

    return Controller("service-account-controller", Namespace, plan_namespace, _TRIGGERS)


def _namespace_of_default(
    objects: ObjectIndex, subject: Any, _before: Any | None, _gone: bool
) -> tuple[str, ...]:
    """Find the namespace of a changed default account or certificate map."""
    if subject.metadata.name not in (DEFAULT_ACCOUNT, AUTHORITY_MAP):
        return ()
    namespace = objects.find(Namespace, "", subject.metadata.namespace)
    return () if namespace is None else (namespace.metadata.uid,)


_TRIGGERS = (
    OwnChange(Namespace),
    RelatedChange(ServiceAccount, Namespace, _namespace_of_default),
    RelatedChange(ConfigMap, Namespace, _namespace_of_default),
)
