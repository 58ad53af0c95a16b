"""Discovery documents: the groups, versions and resources of the server.

There are two forms: one document per group and version, and aggregated discovery.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kubesched.cluster.apiserver.http.access_reviews import REVIEWS
from kubesched.cluster.apiserver.http.metrics_api import METRICS, METRICS_KINDS
from kubesched.cluster.apiserver.http.scale_subresource import scale_paths
from kubesched.cluster.apiserver.rules.resources.resource_catalog import Catalog
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.validation.version_order import version_rank

__all__ = ["AGGREGATED", "VERSION", "Discovery"]

Json = dict[str, Any]

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION: Json = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.4+kubesched",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_PART_VERBS = ("get", "patch", "update")
_STREAM_VERBS = ("create", "get")
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")
_READ_VERBS = ("get", "list")


class _Part(NamedTuple):
    """A subresource."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class _Entry(NamedTuple):
    """A resource in a discovery document."""

    plural: str
    singular: str
    namespaced: bool
    kind: str
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    parts: tuple[_Part, ...] = ()
    stored_hash: str = ""


# Subresources other than scale and status, by resource.
_PARTS: dict[str, tuple[_Part, ...]] = {
    "namespaces": (_Part("finalize", "Namespace", ("update",)),),
    "nodes": (_Part("proxy", "NodeProxyOptions", _PROXY_VERBS),),
    "pods": (
        _Part("attach", "PodAttachOptions", _STREAM_VERBS),
        _Part("binding", "Binding", ("create",)),
        _Part("ephemeralcontainers", "Pod", _PART_VERBS),
        _Part("eviction", "Eviction", ("create",), "policy", "v1"),
        _Part("exec", "PodExecOptions", _STREAM_VERBS),
        _Part("log", "Pod", ("get",)),
        _Part("portforward", "PodPortForwardOptions", _STREAM_VERBS),
        _Part("proxy", "PodProxyOptions", _PROXY_VERBS),
        _Part("resize", "Pod", _PART_VERBS),
    ),
    "serviceaccounts": (
        _Part("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),
    ),
    "services": (_Part("proxy", "ServiceProxyOptions", _PROXY_VERBS),),
    "certificatesigningrequests.certificates.k8s.io": (
        _Part("approval", "CertificateSigningRequest", _PART_VERBS),
    ),
}


class Discovery:
    """Creates discovery documents from the catalog.

    The groups are cached until the catalog changes, which it does when a custom resource is
    defined or deleted.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # Whether the server has the metrics of nodes and pods.
        self.has_metrics = False
        # The resources of other servers, by group and version: their own documents.
        self.remote: Callable[[], Mapping[tuple[str, str], Json]] = dict
        # The number of catalog changes at which the groups were read, and the groups.
        self._cached: tuple[int, dict[str, dict[str, list[_Entry]]]] = (-1, {})

    def core_versions(self, address: str) -> Json:
        served = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": served}

    def groups(self) -> Json:
        found = {name: list(versions) for name, versions in self._groups().items() if name}
        for name, version in self.remote():
            found[name] = [version, *found.get(name, [])]
        groups = [_group(name, versions) for name, versions in found.items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def group(self, name: str) -> Json | None:
        versions = [version for group, version in self.remote() if group == name]
        versions += self._groups().get(name, ())
        if not name or not versions:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}

    def resources(self, group: str, version: str) -> Json | None:
        entries = self._groups().get(group, {}).get(version)
        if entries is None:
            return None
        shown = []
        for entry in entries:
            shown.append(_plain_entry(entry))
            shown += [_plain_part(entry, part) for part in entry.parts]
        head: Json = {"kind": "APIResourceList"}
        if group:
            head["apiVersion"] = "v1"
        name = f"{group}/{version}" if group else version
        return {**head, "groupVersion": name, "resources": shown}

    def aggregated(self, *, core: bool) -> Json:
        items: list[Json] = []
        for name, versions in self._groups().items():
            if core != (name == ""):
                continue
            shown = [
                {
                    "version": version,
                    "resources": [_aggregated_entry(entry) for entry in entries],
                    "freshness": "Current",
                }
                for version, entries in versions.items()
            ]
            items.append({"metadata": {"name": name} if name else {}, "versions": shown})
        for (name, version), document in () if core else self.remote().items():
            shown = [_remote_version(version, document)]
            others = [each for each in items if each["metadata"].get("name") == name]
            if others:
                others[0]["versions"] = [*shown, *others[0]["versions"]]
            else:
                items.append({"metadata": {"name": name}, "versions": shown})
        head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
        return {**head, "metadata": {}, "items": items}

    def has_version(self, group: str, version: str) -> bool:
        return version in self._groups().get(group, {})

    def group_versions(self) -> Iterator[tuple[str, str]]:
        for group, versions in self._groups().items():
            for version in versions:
                yield group, version

    def _groups(self) -> dict[str, dict[str, list[_Entry]]]:
        """Return the groups in the reference's order of preference, stable versions first."""
        if self._cached[0] != self._catalog.changes:
            self._cached = (self._catalog.changes, self._read_groups())
        return self._cached[1]

    def _read_groups(self) -> dict[str, dict[str, list[_Entry]]]:
        found: dict[str, dict[str, list[_Entry]]] = {}

        def add(group: str, version: str, entry: _Entry) -> None:
            found.setdefault(group, {}).setdefault(version, []).append(entry)

        for resource in self._catalog.all():
            add(resource.group, resource.version, _entry(resource))
        add("", "v1", _Entry("bindings", "binding", True, "Binding", ("create",)))
        for (group, plural), (kind, namespaced) in REVIEWS.items():
            add(group, "v1", _Entry(plural, kind.lower(), namespaced, kind, ("create",)))
        for plural, (kind, namespaced) in METRICS_KINDS.items() if self.has_metrics else ():
            add(METRICS, "v1beta1", _Entry(plural, "", namespaced, kind, _READ_VERBS))
        for versions in found.values():
            for entries in versions.values():
                entries.sort(key=lambda entry: entry.plural)
        return {
            group: dict(sorted(found[group].items(), key=lambda each: version_rank(each[0])))
            for group in sorted(found, key=lambda name: (_order(name), name))
        }


# The order in which the reference lists groups. Clients use the first that has a resource.
_FIRST = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
)
_BUILT_IN = (
    *_FIRST,
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)


def _order(group: str) -> int:
    return _BUILT_IN.index(group) if group in _BUILT_IN else len(_BUILT_IN)


def _entry(resource: Resource) -> _Entry:
    parts = [*_PARTS.get(resource.group_resource, ())]
    if scale_paths(resource) is not None:
        parts.append(_Part("scale", "Scale", _PART_VERBS, "autoscaling", "v1"))
    if resource.strategy.has_status:
        parts.append(_Part("status", resource.kind, _PART_VERBS))
    verbs: tuple[str, ...] = _ALL_VERBS
    if resource.group_resource == "componentstatuses":
        verbs = _READ_VERBS
    if resource.group_resource == "namespaces":
        verbs = tuple(verb for verb in verbs if verb != "deletecollection")
    return _Entry(
        resource.plural,
        resource.kind.lower(),
        resource.namespaced,
        resource.kind,
        verbs,
        resource.short_names,
        resource.categories,
        tuple(parts),
        _stored_hash(resource),
    )


def _stored_hash(resource: Resource) -> str:
    """Return the hash of the storage version; clients compare it to detect a migration."""
    if resource.group_resource == "componentstatuses":
        return ""  # these objects are not stored
    if resource.type is None and resource.to_stored is not None:
        return ""  # not the storage version of a custom resource
    group = "" if resource.kind == "Event" else resource.group
    digest = hashlib.sha256(f"{group}/{resource.version}/{resource.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _group(name: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _plain_entry(entry: _Entry) -> Json:
    shown: Json = {
        "name": entry.plural,
        "singularName": entry.singular,
        "namespaced": entry.namespaced,
        "kind": entry.kind,
        "verbs": entry.verbs,
    }
    if entry.short_names:
        shown["shortNames"] = entry.short_names
    if entry.categories:
        shown["categories"] = entry.categories
    if entry.stored_hash:
        shown["storageVersionHash"] = entry.stored_hash
    return shown


def _plain_part(entry: _Entry, part: _Part) -> Json:
    shown: Json = {
        "name": f"{entry.plural}/{part.name}",
        "singularName": "",
        "namespaced": entry.namespaced,
    }
    if part.group:
        shown |= {"group": part.group, "version": part.version}
    return {**shown, "kind": part.kind, "verbs": part.verbs}


def _remote_version(version: str, document: Json) -> Json:
    """Return a version in aggregated discovery from another server's list of resources."""
    resources: dict[str, Json] = {}
    listed = [each for each in document.get("resources") or () if isinstance(each, dict)]
    for each in sorted(listed, key=lambda entry: "/" in entry.get("name", "")):
        name, _, part = each.get("name", "").partition("/")
        kind = {key: each.get(key, "") for key in ("group", "version", "kind")}
        if part and name in resources:
            shown = {"subresource": part, "responseKind": kind, "verbs": each.get("verbs") or []}
            resources[name].setdefault("subresources", []).append(shown)
        elif not part:
            resources[name] = {
                "resource": name,
                "responseKind": kind,
                "scope": "Namespaced" if each.get("namespaced") else "Cluster",
                "singularResource": each.get("singularName", ""),
                "verbs": each.get("verbs") or [],
                **{key: each[key] for key in ("shortNames", "categories") if each.get(key)},
            }
    return {"version": version, "resources": list(resources.values()), "freshness": "Current"}


def _aggregated_entry(entry: _Entry) -> Json:
    shown: Json = {
        "resource": entry.plural,
        "responseKind": {"group": "", "version": "", "kind": entry.kind},
        "scope": "Namespaced" if entry.namespaced else "Cluster",
        "singularResource": entry.singular,
        "verbs": entry.verbs,
    }
    if entry.short_names:
        shown["shortNames"] = entry.short_names
    if entry.categories:
        shown["categories"] = entry.categories
    if entry.parts:
        shown["subresources"] = [
            {
                "subresource": part.name,
                "responseKind": {"group": part.group, "version": part.version, "kind": part.kind},
                "verbs": part.verbs,
            }
            for part in entry.parts
        ]
    return shown
