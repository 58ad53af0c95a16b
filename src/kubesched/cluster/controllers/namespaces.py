"""Namespaces: what every one of them has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubesched.api import Namespace
from kubesched.api.core import ConfigMap, ServiceAccount
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, Patch

__all__ = ["AUTHORITY_MAP", "DEFAULT_ACCOUNT", "plan_namespace"]

AUTHORITY_MAP = "kube-root-ca.crt"
DEFAULT_ACCOUNT = "default"
_DESCRIPTION = {"kubernetes.io/description": "Whom to trust when talking to the API server."}


def plan_namespace(
    authority: Callable[[], str],
) -> Callable[[ObjectIndex, Namespace, Mapping[str, Any], int], ActionPlan]:
    """Plans for a cluster whose server is trusted by the certificates of `authority`."""

    def plan(
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
        held: ConfigMap | None = objects.find(ConfigMap, name, AUTHORITY_MAP)
        if held is None:
            metadata = {"name": AUTHORITY_MAP, "namespace": name, "annotations": _DESCRIPTION}
            made = {"metadata": metadata, "data": data}
            actions.append(Create(ConfigMap, made, optional=True))
        elif held.data != data:
            removed = {key: None for key in held.data if key not in data}
            actions.append(Patch(held, {"data": {**removed, **data}}))
        return ActionPlan(actions)

    return plan
