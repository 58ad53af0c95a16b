"""System objects: bootstrap roles, flow schemas, component statuses, APIServices, IPAddresses.

The server creates them on the first request about their kind. Most clients never send one, and this
shortens the start of a cluster.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from typing import Any

from kubesched.cluster.apiserver.rules.bootstrap_roles import bootstrap_bindings, bootstrap_roles
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.rules.strategies.service_addresses import (
    MANAGED_ADDRESS,
    SERVICE_NETWORK,
)
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["SystemObjects"]

Json = dict[str, Any]

_FLOW = "flowcontrol.apiserver.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_SERVICES = "apiregistration.k8s.io"
_NETWORKING = "networking.k8s.io"
_FAMILY_LABEL = "ipaddress.kubernetes.io/ip-family"
# Flow schemas: priority level, precedence and distinguisher method.
_PRECEDENCES: dict[str, tuple[str, int, str]] = {
    "exempt": ("exempt", 1, ""),
    "probes": ("exempt", 2, ""),
    "system-leader-election": ("leader-election", 100, "ByUser"),
    "endpoint-controller": ("workload-high", 150, "ByUser"),
    "workload-leader-election": ("leader-election", 200, "ByUser"),
    "system-node-high": ("node-high", 400, "ByUser"),
    "system-nodes": ("system", 500, "ByUser"),
    "kube-controller-manager": ("workload-high", 800, "ByNamespace"),
    "kube-scheduler": ("workload-high", 800, "ByNamespace"),
    "kube-system-service-accounts": ("workload-high", 900, "ByNamespace"),
    "service-accounts": ("workload-low", 9000, "ByUser"),
    "global-default": ("global-default", 9900, "ByUser"),
    "catch-all": ("catch-all", 10000, "ByUser"),
}
# Priority levels: shares, lendable percentage, and queues (count, hand size, length limit).
_LEVELS: dict[str, tuple[int, int, tuple[int, int, int] | None]] = {
    "system": (30, 33, (64, 6, 50)),
    "node-high": (40, 25, (64, 6, 50)),
    "leader-election": (10, 0, (16, 4, 50)),
    "workload-high": (40, 50, (128, 6, 50)),
    "workload-low": (100, 90, (128, 6, 50)),
    "global-default": (20, 50, (128, 6, 50)),
    "catch-all": (5, 0, None),
}


class SystemObjects:
    """Creates the system objects that are missing."""

    def __init__(
        self,
        store: Store,
        now_ns: Callable[[], int],
        group_versions: Callable[[], Iterator[tuple[str, str]]],
    ) -> None:
        self._store, self._now_ns = store, now_ns
        self._group_versions = group_versions
        self._created: set[str] = set()  # keys of _MAKERS
        # The number of catalog changes when the APIServices were last updated.
        self._published_changes = -1
        # The revision of the store when the IPAddresses were last updated.
        self._published_revision = -1

    def provide(self, group: str, plural: str) -> None:
        """Create the system objects of the resource that a request names."""
        if group == _SERVICES:
            self._publish_services()
            return
        if group == _NETWORKING:
            self._publish_networks(plural)
            return
        key = group or plural
        make = _MAKERS.get(key)
        if make is None or key in self._created:
            return
        self._created.add(key)
        for kind, body in make():
            self._create(key if group else "", "v1", kind, body)

    def _create(self, group: str, version: str, plural: str, body: Json) -> None:
        resource = self._store.catalog.by_url(group, version, plural)
        name = body["metadata"]["name"]
        if self._store.find_record(resource, None, name) is not None:
            return
        now_ns = self._now_ns()
        with self._store.own_writes():
            self._store.create(resource, None, body, now_ns)
            if "status" in body:
                self._store.update(resource, None, name, body, now_ns, subresource="status")

    def _publish_networks(self, plural: str) -> None:
        """Create the ServiceCIDR of the cluster, or an IPAddress per cluster IP of a service."""
        if plural == "servicecidrs":
            spec = {"cidrs": [str(SERVICE_NETWORK)]}
            body = {"metadata": {"name": "kubernetes"}, "spec": spec}
            self._create(_NETWORKING, "v1", plural, body)
        elif plural == "ipaddresses" and self._published_revision != self._store.revision:
            self._publish_addresses(plural)
            self._published_revision = self._store.revision

    def _publish_addresses(self, plural: str) -> None:
        resource = self._store.catalog.by_url(_NETWORKING, "v1", plural)
        current = {
            each["spec"]["clusterIP"]: each["metadata"]
            for each in self._store.all("services")
            if each.get("spec", {}).get("clusterIP") not in (None, "", "None")
        }
        manager, value = MANAGED_ADDRESS
        for name, record in list(self._store.collection(resource).objects.items()):
            labels = record.data["metadata"].get("labels", {})
            service = current.get(name)
            reference = record.data["spec"].get("parentRef", {})
            if labels.get(manager) == value and (
                service is None
                or (reference.get("namespace"), reference.get("name"))
                != (service["namespace"], service["name"])
            ):
                self._store.delete(resource, None, name, self._now_ns())
        for name, service in current.items():
            reference = {
                "resource": "services",
                "namespace": service["namespace"],
                "name": service["name"],
            }
            version = ipaddress.ip_address(name).version
            labels = {_FAMILY_LABEL: f"IPv{version}", manager: value}
            metadata = {"name": name, "labels": labels}
            body = {"metadata": metadata, "spec": {"parentRef": reference}}
            self._create(_NETWORKING, "v1", plural, body)

    def _publish_services(self) -> None:
        """Create and delete APIServices, so that there is one per group and version."""
        if self._published_changes == self._store.catalog.changes:
            return
        self._published_changes = self._store.catalog.changes
        versions = self._group_versions()
        current = {f"{version}.{group}": (group, version) for group, version in versions}
        services = self._store.catalog.by_url(_SERVICES, "v1", "apiservices")
        for key, record in list(self._store.collection(services).objects.items()):
            if key not in current and not record.data["spec"].get("service"):
                with self._store.own_writes():
                    self._store.delete(services, None, key, self._now_ns())
        for name, (group, version) in current.items():
            available = {
                "type": "Available",
                "status": "True",
                "lastTransitionTime": format_timestamp(self._now_ns()),
                "reason": "Local",
                "message": "Local APIServices are always available",
            }
            spec = {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 17800 if "." not in group or "k8s.io" in group else 1000,
                "versionPriority": 15 if "alpha" not in version and "beta" not in version else 9,
            }
            labels = {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
            self._create(
                _SERVICES,
                "v1",
                "apiservices",
                {
                    "metadata": {"name": name.removesuffix("."), "labels": labels},
                    "spec": {key: value for key, value in spec.items() if value != ""},
                    "status": {"conditions": [available]},
                },
            )


def _flow_control() -> Iterator[tuple[str, Json]]:
    plural = "prioritylevelconfigurations"
    annotations = {"apf.kubernetes.io/autoupdate-spec": "true"}
    metadata = {"annotations": annotations}
    exempt = {"metadata": {"name": "exempt", **metadata}, "spec": {"type": "Exempt"}}
    yield plural, exempt
    for name, (shares, lendable, queues) in _LEVELS.items():
        response: Json = {"type": "Reject"}
        if queues is not None:
            sizes = dict(zip(("queues", "handSize", "queueLengthLimit"), queues, strict=True))
            response = {"type": "Queue", "queuing": sizes}
        limited = {
            "nominalConcurrencyShares": shares,
            "lendablePercent": lendable,
            "limitResponse": response,
        }
        spec = {"type": "Limited", "limited": limited}
        yield plural, {"metadata": {"name": name, **metadata}, "spec": spec}
    for name, (level, precedence, method) in _PRECEDENCES.items():
        schema: Json = {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "rules": [_flow_rule(name)],
        }
        if method:
            schema["distinguisherMethod"] = {"type": method}
        found = {"type": "Dangling", "status": "False", "reason": "Found"}
        yield (
            "flowschemas",
            {
                "metadata": {"name": name, **metadata},
                "spec": schema,
                "status": {"conditions": [found]},
            },
        )


_EVERYBODY: tuple[Json, ...] = tuple(
    {"kind": "Group", "group": {"name": name}}
    for name in ("system:unauthenticated", "system:authenticated")
)
_LEASES = (("get create update", "coordination.k8s.io", "leases"),)


def _group_subject(name: str) -> tuple[Json, ...]:
    return ({"kind": "Group", "group": {"name": name}},)


def _users(*names: str) -> tuple[Json, ...]:
    return tuple({"kind": "User", "user": {"name": f"system:{name}"}} for name in names)


def _accounts(*names: str) -> tuple[Json, ...]:
    """Return subjects for service accounts in the namespace `kube-system`."""
    account = {"namespace": "kube-system"}
    return tuple(
        {"kind": "ServiceAccount", "serviceAccount": {**account, "name": name}} for name in names
    )


# The subjects of flow schemas, and what they are limited to: verbs, group and resources.
_FLOW_SUBJECTS: dict[str, tuple[tuple[Json, ...], tuple[tuple[str, str, str], ...]]] = {
    "exempt": (_group_subject("system:masters"), ()),
    "system-leader-election": (
        (*_users("kube-controller-manager", "kube-scheduler"), *_accounts("*")),
        _LEASES,
    ),
    "endpoint-controller": (
        (
            *_users("kube-controller-manager"),
            *_accounts("endpoint-controller", "endpointslicemirroring-controller"),
        ),
        (
            ("get create update", "", "endpoints"),
            ("get create update", "discovery.k8s.io", "endpointslices"),
        ),
    ),
    "workload-leader-election": (_accounts("*"), _LEASES),
    "system-node-high": (
        _group_subject("system:nodes"),
        (("*", "", "nodes nodes/status"), ("*", "coordination.k8s.io", "leases")),
    ),
    "system-nodes": (_group_subject("system:nodes"), ()),
    "kube-controller-manager": (_users("kube-controller-manager"), ()),
    "kube-scheduler": (_users("kube-scheduler"), ()),
    "kube-system-service-accounts": (_accounts("*"), ()),
    "service-accounts": (_group_subject("system:serviceaccounts"), ()),
}
_HEALTH = ("/healthz", "/readyz", "/livez")


def _flow_rule(schema: str) -> Json:
    """Return the rule of a flow schema: some or all requests of its subjects."""
    subjects, limits = _FLOW_SUBJECTS.get(schema, (_EVERYBODY, ()))
    everywhere = {"clusterScope": True, "namespaces": ["*"]}
    if schema == "probes":
        paths = {"verbs": ["get"], "nonResourceURLs": [*_HEALTH]}
        return {"subjects": [*subjects], "nonResourceRules": [paths]}
    if limits:
        resources = [
            {
                "verbs": verbs.split(),
                "apiGroups": [group],
                "resources": plurals.split(),
                **everywhere,
            }
            for verbs, group, plurals in limits
        ]
        return {"subjects": [*subjects], "resourceRules": resources}
    return {
        "subjects": [*subjects],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], **everywhere}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }


def _roles() -> Iterator[tuple[str, Json]]:
    for role in bootstrap_roles():
        yield "clusterroles", role
    for binding in bootstrap_bindings():
        yield "clusterrolebindings", binding


def _components() -> Iterator[tuple[str, Json]]:
    for name in ("controller-manager", "etcd-0", "scheduler"):
        healthy = {"type": "Healthy", "status": "True", "message": "ok"}
        yield "componentstatuses", {"metadata": {"name": name}, "conditions": [healthy]}


_MAKERS: dict[str, Callable[[], Iterator[tuple[str, Json]]]] = {
    _FLOW: _flow_control,
    _RBAC: _roles,
    "componentstatuses": _components,
}
