"""Subresources that need a real kubelet or process: the server refuses them."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["KUBELET_SUBRESOURCES", "refuse_subresource"]

KUBELET_SUBRESOURCES = {
    "attach": "there is no process to attach to",
    "exec": "there is no process to run a command in",
    "log": "there is no process that writes a log",
    "portforward": "there is no port to forward to",
    "proxy": "there is nothing that listens",
}
_OWNERS = frozenset({"nodes", "pods", "services"})


def refuse_subresource(
    store: Store, resource: Resource, namespace: str | None, name: str, part: str
) -> None:
    """Refuse a request to a subresource that needs a real process.

    Raises:
        ApiError: 501, or 404 if the object does not exist.
    """
    plural = resource.group_resource
    if plural not in _OWNERS or (part != "proxy" and plural != "pods"):
        raise api_errors.unknown_resource()
    store.get(resource, namespace, name)
    raise api_errors.not_possible(
        f'{plural} "{name}": no {part} in an embedded cluster, which runs no containers: '
        f"{KUBELET_SUBRESOURCES[part]}"
    )
