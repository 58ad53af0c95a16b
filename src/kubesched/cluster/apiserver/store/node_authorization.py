"""Authorization of nodes: a node may read and write only what its pods need.

A node is a user `system:node:NAME` of the group `system:nodes`. Objects that pods refer to are
found in the pods of the node, at the time of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kubesched.api.fields import FieldSelector
from kubesched.cluster.apiserver.rules.bootstrap_roles import NODE_RULES
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.rbac_rules import Attributes, Subject, rule_allows
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.errors import SelectorError

__all__ = ["NODES", "NodeAuthorization", "node_name_of"]

Json = dict[str, Any]

NODES: Final = "system:nodes"
_NODE: Final = "system:node:"
_LEASES: Final = "kube-node-lease"
_MIRROR: Final = "kubernetes.io/config.mirror"
_READ = frozenset({"get", "list", "watch"})
_OWN_VERBS = frozenset({"get", "create", "update", "patch", "delete"})
# The fields of a pod that refer to a secret or a configmap, and the key of the name in each.
_SECRET_FIELDS: Final = {
    "imagePullSecrets": "name",
    "nodePublishSecretRef": "name",
    "secret": "secretName",
    "secretKeyRef": "name",
    "secretRef": "name",
}
_CONFIG_FIELDS: Final = {"configMap": "name", "configMapKeyRef": "name", "configMapRef": "name"}


def node_name_of(subject: Subject) -> str:
    """Return the node that a user is; an empty text for other users."""
    if NODES not in subject.groups or not subject.name.startswith(_NODE):
        return ""
    return subject.name.removeprefix(_NODE)


class NodeAuthorization:
    """Authorizes the requests of nodes, and restricts what they write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._checks: dict[tuple[str, str], Callable[[str, Attributes], bool]] = {
            ("", "secrets"): lambda node, what: self._reads(node, what, _SECRET_FIELDS),
            ("", "configmaps"): lambda node, what: self._reads(node, what, _CONFIG_FIELDS),
            ("", "persistentvolumeclaims"): self._claims,
            ("", "persistentvolumes"): self._volumes,
            ("", "serviceaccounts"): self._accounts,
            ("", "nodes"): self._nodes,
            ("", "pods"): self._pods,
            ("resource.k8s.io", "resourceclaims"): self._resource_claims,
            ("resource.k8s.io", "resourceslices"): self._slices,
            ("storage.k8s.io", "volumeattachments"): self._attachments,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("coordination.k8s.io", "leases"): self._leases,
        }

    def allows(self, node: str, attributes: Attributes) -> bool:
        """Whether a node may make a request."""
        check = self._checks.get((attributes.group, attributes.plural))
        if check is not None:
            return check(node, attributes)
        return any(rule_allows(rule, attributes) for rule in NODE_RULES)

    def check_write(self, node: str, attributes: Attributes, body: Callable[[], Any]) -> None:
        """Refuse a write to an object of another node. Raises ApiError 403.

        `body` returns the document of the request.
        """
        if attributes.verb in _READ or attributes.group:
            return
        if attributes.plural == "nodes":
            self._check_node(node, attributes, body)
        elif attributes.plural == "pods":
            self._check_pod(node, attributes, body)

    def _check_node(self, node: str, what: Attributes, body: Callable[[], Any]) -> None:
        name = what.name
        if what.verb == "create" and isinstance(document := body(), dict):
            name = (document.get("metadata") or {}).get("name", "")
        if name != node:
            text = f'node "{node}" is not allowed to modify node "{name}"'
            raise api_errors.forbidden("nodes", name, text)

    def _check_pod(self, node: str, what: Attributes, body: Callable[[], Any]) -> None:
        if what.verb == "create" and not what.subresource:
            document = body()
            metadata = document.get("metadata") or {} if isinstance(document, dict) else {}
            if _MIRROR not in (metadata.get("annotations") or {}):
                text = f'pod does not have "{_MIRROR}" annotation, node "{node}" can only create '
                raise api_errors.forbidden("pods", metadata.get("name", ""), text + "mirror pods")
            return
        if what.subresource not in ("", "status", "eviction"):
            text = f'unexpected pod subresource "{what.subresource}", only "status" and "eviction" '
            raise api_errors.forbidden("pods", what.name, text + "are allowed")
        pod = self._store.find("pods", f"{what.namespace}/{what.name}")
        if pod is not None and pod["spec"].get("nodeName") != node:
            action = {"status": "update pod status for", "eviction": "evict"}.get(
                what.subresource, "delete"
            )
            text = f'node "{node}" can only {action} pods with spec.nodeName set to itself'
            raise api_errors.forbidden("pods", what.name, text)

    def _own_pods(self, node: str) -> Iterator[Json]:
        for pod in self._store.all("pods"):
            if pod["spec"].get("nodeName") == node:
                yield pod

    def _pods_in(self, node: str, namespace: str) -> Iterator[Json]:
        return (each for each in self._own_pods(node) if each["metadata"]["namespace"] == namespace)

    def _reads(self, node: str, what: Attributes, fields: dict[str, str]) -> bool:
        if what.verb not in _READ or what.subresource or not what.name:
            return False
        return any(
            what.name in _references(pod["spec"], fields)
            for pod in self._pods_in(node, what.namespace)
        )

    def _claim_names(self, node: str) -> Iterator[tuple[str, str]]:
        for pod in self._own_pods(node):
            metadata = pod["metadata"]
            for volume in pod["spec"].get("volumes") or ():
                if claim := volume.get("persistentVolumeClaim"):
                    yield metadata["namespace"], claim.get("claimName", "")
                elif volume.get("ephemeral"):
                    yield metadata["namespace"], f"{metadata['name']}-{volume['name']}"

    def _claims(self, node: str, what: Attributes) -> bool:
        if what.subresource == "status":
            allowed = what.verb in ("update", "patch")
        else:
            allowed = what.verb == "get" and not what.subresource
        return allowed and (what.namespace, what.name) in self._claim_names(node)

    def _volumes(self, node: str, what: Attributes) -> bool:
        if what.verb != "get" or what.subresource:
            return False
        volume = self._store.find("persistentvolumes", what.name)
        claim = (volume or {}).get("spec", {}).get("claimRef") or {}
        bound = claim.get("namespace", ""), claim.get("name", "")
        return bound in self._claim_names(node)

    def _accounts(self, node: str, what: Attributes) -> bool:
        is_token = what.verb == "create" and what.subresource == "token"
        if not is_token and (what.verb != "get" or what.subresource):
            return False
        return any(
            pod["spec"].get("serviceAccountName", "default") == what.name
            for pod in self._pods_in(node, what.namespace)
        )

    def _nodes(self, node: str, what: Attributes) -> bool:
        if what.verb in _READ:
            return what.name == node and not what.subresource
        if what.subresource == "status":
            return what.verb in ("update", "patch")
        return what.verb in ("create", "update", "patch") and not what.subresource

    def _pods(self, node: str, what: Attributes) -> bool:
        if what.verb in ("list", "watch"):
            return _selected(what, "spec.nodeName") == node
        if what.verb == "get":
            pod = self._store.find("pods", f"{what.namespace}/{what.name}")
            return pod is not None and pod["spec"].get("nodeName") == node
        if what.subresource == "status":
            return what.verb in ("update", "patch")
        if what.subresource == "eviction":
            return what.verb == "create"
        return what.verb in ("create", "delete") and not what.subresource

    def _resource_claims(self, node: str, what: Attributes) -> bool:
        if what.verb != "get" or what.subresource:
            return False
        for pod in self._pods_in(node, what.namespace):
            stated = pod.get("status", {}).get("resourceClaimStatuses") or ()
            declared = pod["spec"].get("resourceClaims") or ()
            names = {each.get("resourceClaimName") for each in (*declared, *stated)}
            if what.name in names:
                return True
        return False

    def _slices(self, node: str, what: Attributes) -> bool:
        if what.verb in ("list", "watch", "deletecollection"):
            return _selected(what, "spec.nodeName") == node
        if what.verb == "create":
            return True
        found = self._store.find("resourceslices.resource.k8s.io", what.name)
        return found is not None and found.get("spec", {}).get("nodeName") == node

    def _attachments(self, node: str, what: Attributes) -> bool:
        if what.verb != "get" or what.subresource:
            return False
        found = self._store.find("volumeattachments.storage.k8s.io", what.name)
        return found is not None and found.get("spec", {}).get("nodeName") == node

    def _csi_node(self, node: str, what: Attributes) -> bool:
        return what.verb in _OWN_VERBS and _is_own(node, what)

    def _leases(self, node: str, what: Attributes) -> bool:
        return what.verb in _OWN_VERBS and what.namespace == _LEASES and _is_own(node, what)


def _is_own(node: str, what: Attributes) -> bool:
    # The name of a new object is not part of the attributes.
    return not what.subresource and (what.name == node or what.verb == "create")


def _selected(what: Attributes, path: str) -> str:
    """Return the value to which the field selector of a request restricts a field."""
    try:
        terms = FieldSelector.parse(what.field_selector).terms
    except SelectorError:
        return ""
    return next((each.value for each in terms if each.path == path and not each.is_negated), "")


def _references(part: Any, fields: dict[str, str]) -> Iterator[str]:
    """Yield the names in the given fields, wherever they are in a part of a pod."""
    if isinstance(part, list):
        for each in part:
            yield from _references(each, fields)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in fields:
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, dict):
                        # A secret in a projected volume has a `name`.
                        yield each.get(fields[key]) or each.get("name", "")
            yield from _references(value, fields)
