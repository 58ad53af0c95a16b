"""The bootstrap roles and bindings of a cluster with RBAC, as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["NODE_RULES", "bootstrap_bindings", "bootstrap_roles"]

Json = dict[str, Any]

_READ: Final = "get list watch"
_WRITE: Final = "create delete deletecollection patch update"
_ALL: Final = f"{_WRITE} {_READ}"
_LABEL: Final = "kubernetes.io/bootstrapping"
_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"

_WORKLOADS: Final = {
    "apps": "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets "
    "statefulsets/scale",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "networking.k8s.io": "ingresses networkpolicies",
    "policy": "poddisruptionbudgets",
    "resource.k8s.io": "resourceclaims resourceclaimtemplates",
}
_CORE: Final = (
    "configmaps endpoints persistentvolumeclaims pods replicationcontrollers "
    "replicationcontrollers/scale serviceaccounts services"
)
_CORE_STATUS: Final = (
    "bindings events limitranges namespaces/status pods/log pods/status "
    "replicationcontrollers/status resourcequotas resourcequotas/status namespaces "
    "persistentvolumeclaims/status services/status"
)
_RBAC: Final = "rbac.authorization.k8s.io"


def _rule(verbs: str, group: str, resources: str, *names: str) -> Json:
    rule: Json = {
        "verbs": verbs.split(),
        "apiGroups": [group],
        "resources": resources.split(),
    }
    return {**rule, "resourceNames": list(names)} if names else rule


def _urls(verbs: str, urls: str) -> Json:
    return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}


def _workloads(verbs: str) -> list[Json]:
    return [_rule(verbs, group, resources) for group, resources in _WORKLOADS.items()]


_EVENTS: Final = [
    _rule("create patch update", "", "events"),
    _rule("create patch update", "events.k8s.io", "events"),
]
_LEASES: Final = "coordination.k8s.io"
# The rules of nodes for resources that are not subdivided by node.
NODE_RULES: Final[list[Json]] = [
    *_EVENTS,
    _rule("create get update patch delete", _LEASES, "leases"),
    _rule(f"{_READ} create patch update", "", "nodes"),
    _rule("patch update", "", "nodes/status"),
    _rule(f"{_READ} create delete", "", "pods"),
    _rule("patch update", "", "pods/status"),
    _rule("create", "", "pods/eviction serviceaccounts/token"),
    _rule(_READ, "", "configmaps secrets services persistentvolumeclaims persistentvolumes"),
    _rule(_READ, "node.k8s.io", "runtimeclasses"),
    _rule(_READ, "storage.k8s.io", "csidrivers volumeattachments"),
    _rule("create delete get patch update", "storage.k8s.io", "csinodes"),
    _rule(_READ + " create", "certificates.k8s.io", "certificatesigningrequests"),
    _rule("create", "authentication.k8s.io", "tokenreviews"),
    _rule("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
]
_ROLES: Final[dict[str, list[Json]]] = {
    "cluster-admin": [_rule("*", "*", "*"), _urls("*", "*")],
    "system:aggregate-to-view": [
        _rule(_READ, "", f"{_CORE} {_CORE_STATUS}"),
        *_workloads(_READ),
        _rule(_READ, "discovery.k8s.io", "endpointslices"),
        _rule(_READ, "apps", "controllerrevisions"),
    ],
    "system:aggregate-to-edit": [
        _rule(
            _READ, "", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"
        ),
        _rule("impersonate", "", "serviceaccounts"),
        _rule(_WRITE, "", f"{_CORE} pods/attach pods/exec pods/portforward pods/proxy secrets"),
        _rule(_WRITE, "", "events services/proxy"),
        _rule("create", "", "pods/eviction serviceaccounts/token"),
        _rule(_ALL, _LEASES, "leases"),
        *_workloads(_WRITE),
    ],
    "system:aggregate-to-admin": [
        _rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        _rule(_ALL, _RBAC, "roles rolebindings"),
    ],
    "system:discovery": [
        _urls(
            "get",
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version "
            "/version/",
        )
    ],
    "system:public-info-viewer": [_urls("get", "/healthz /livez /readyz /version /version/")],
    "system:service-account-issuer-discovery": [
        _urls(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ "
            "/openid/v1/jwks /openid/v1/jwks/",
        )
    ],
    "system:monitoring": [
        _urls("get", "/healthz /healthz/* /livez /livez/* /metrics /readyz /readyz/*")
    ],
    "system:basic-user": [
        _rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        _rule("create", "authentication.k8s.io", "selfsubjectreviews"),
    ],
    "system:auth-delegator": [
        _rule("create", "authentication.k8s.io", "tokenreviews"),
        _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
    ],
    "system:kube-scheduler": [
        *_EVENTS,
        _rule("create", _LEASES, "leases"),
        _rule("get list update watch", _LEASES, "leases", "kube-scheduler"),
        _rule(_READ, "", "nodes namespaces services replicationcontrollers persistentvolumes"),
        _rule(f"{_READ} delete", "", "pods"),
        _rule("create", "", "bindings pods/binding"),
        _rule("patch update", "", "pods/status"),
        _rule("update", "", "pods/finalizers"),
        _rule(f"{_READ} patch update", "", "persistentvolumeclaims"),
        _rule("patch update", "", "persistentvolumes"),
        _rule(_READ, "apps", "replicasets statefulsets"),
        _rule(_READ, "policy", "poddisruptionbudgets"),
        _rule(
            _READ,
            "storage.k8s.io",
            "csidrivers csinodes csistoragecapacities storageclasses volumeattachments",
        ),
        _rule(_READ, "resource.k8s.io", "deviceclasses resourceclaims resourceslices"),
        _rule("create delete", "resource.k8s.io", "resourceclaims"),
        _rule(
            "patch update",
            "resource.k8s.io",
            "resourceclaims resourceclaims/status resourceclaims/binding",
        ),
        _rule("create", "authentication.k8s.io", "tokenreviews"),
        _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
    ],
    "system:volume-scheduler": [
        _rule(f"{_READ} patch update", "", "persistentvolumes persistentvolumeclaims"),
        _rule(_READ, "storage.k8s.io", "storageclasses"),
    ],
    "system:kube-controller-manager": [
        *_EVENTS,
        _rule("create get list update watch", _LEASES, "leases"),
        _rule("list watch", "*", "*"),
        _rule("create get update delete", "", "secrets serviceaccounts"),
        _rule("create", "", "serviceaccounts/token"),
        _rule("create", "authentication.k8s.io", "tokenreviews"),
        _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
    ],
    "system:node": NODE_RULES,
    "system:node-proxier": [
        *_EVENTS,
        _rule(_READ, "", "nodes services"),
        _rule(_READ, "discovery.k8s.io", "endpointslices"),
    ],
}
_AGGREGATED: Final = ("admin", "edit", "view")
_CHAIN: Final = {"edit": "admin", "view": "edit"}
_BINDINGS: Final[dict[str, tuple[str, str, str]]] = {
    "cluster-admin": ("cluster-admin", "Group", "system:masters"),
    "system:basic-user": ("system:basic-user", "Group", "system:authenticated"),
    "system:discovery": ("system:discovery", "Group", "system:authenticated"),
    "system:public-info-viewer": ("system:public-info-viewer", "Group", "system:authenticated"),
    "system:monitoring": ("system:monitoring", "Group", "system:monitoring"),
    "system:service-account-issuer-discovery": (
        "system:service-account-issuer-discovery",
        "Group",
        "system:serviceaccounts",
    ),
    "system:kube-scheduler": ("system:kube-scheduler", "User", "system:kube-scheduler"),
    "system:volume-scheduler": ("system:volume-scheduler", "User", "system:kube-scheduler"),
    "system:kube-controller-manager": (
        "system:kube-controller-manager",
        "User",
        "system:kube-controller-manager",
    ),
    "system:node-proxier": ("system:node-proxier", "User", "system:kube-proxy"),
}


def bootstrap_roles() -> Iterator[Json]:
    """Create the ClusterRoles. Aggregated roles have an aggregation rule and no rules."""
    for name, rules in _ROLES.items():
        labels = {_LABEL: "rbac-defaults"}
        part = name.removeprefix("system:aggregate-to-")
        if part != name:
            labels[f"{_AGGREGATE}{part}"] = "true"
        yield {"metadata": {"name": name, "labels": labels}, "rules": rules}
    for name in _AGGREGATED:
        labels = {_LABEL: "rbac-defaults"}
        if name in _CHAIN:
            labels[f"{_AGGREGATE}{_CHAIN[name]}"] = "true"
        chosen = {"matchLabels": {f"{_AGGREGATE}{name}": "true"}}
        yield {
            "metadata": {"name": name, "labels": labels},
            "aggregationRule": {"clusterRoleSelectors": [chosen]},
        }


def bootstrap_bindings() -> Iterator[Json]:
    """Create the ClusterRoleBindings."""
    for name, (role, kind, subject) in _BINDINGS.items():
        yield {
            "metadata": {"name": name, "labels": {_LABEL: "rbac-defaults"}},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": _RBAC, "kind": kind, "name": subject}],
        }
