"""Defaulting of pod specs, as in the reference, and the QoS class of a pod.

The functions apply to pods and to the pod templates of workloads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesched.api.quantity import ZERO, Quantity, parse_quantity
from kubesched.cluster.apiserver.rules.strategies.canonical_quantities import canonical_amounts

__all__ = ["default_pod_spec", "qos_class", "with_ephemeral_defaults"]

Json = dict[str, Any]

_SPEC_DEFAULTS: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_CONTAINER_DEFAULTS: Json = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Json = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_FILE_MODES = ("configMap", "secret", "downwardAPI", "projected")
_QOS_RESOURCES = ("cpu", "memory")


def default_pod_spec(spec: Json, *, template: bool = False) -> Json:
    """Add the defaults to a spec. A template does not get the defaults that only pods have."""
    filled = {**_SPEC_DEFAULTS, **spec}
    for field in _SPEC_DEFAULTS:
        if filled[field] == "":
            filled[field] = _SPEC_DEFAULTS[field]
    if not template:
        _default_pod_fields(filled)
    host_network = bool(spec.get("hostNetwork")) and not template
    for field in ("containers", "initContainers", "ephemeralContainers"):
        if items := spec.get(field):
            filled[field] = [
                _default_container(item, host_network=host_network, template=template)
                for item in items
            ]
    if volumes := spec.get("volumes"):
        filled["volumes"] = [_default_volume(volume) for volume in volumes]
    if overhead := spec.get("overhead"):
        filled["overhead"] = canonical_amounts(overhead)
    if resources := spec.get("resources"):
        filled["resources"] = _default_pod_resources(resources, filled)
    return filled


def _default_pod_fields(filled: Json) -> None:
    """Add the defaults that templates do not have."""
    if (filled["terminationGracePeriodSeconds"] or 0) < 0:
        filled["terminationGracePeriodSeconds"] = 1  # as short as possible
    if filled.get("enableServiceLinks") is None:
        filled["enableServiceLinks"] = True


def _default_container(container: Json, *, host_network: bool, template: bool) -> Json:
    filled = {**_CONTAINER_DEFAULTS, **container}
    if not filled.get("imagePullPolicy"):
        filled["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    if resources := container.get("resources"):
        filled["resources"] = _default_resources(resources, template=template)
    if ports := container.get("ports"):
        filled["ports"] = [_default_port(port, host_network=host_network) for port in ports]
    for field in _PROBES:
        if probe := container.get(field):
            filled[field] = _default_probe(probe)
    return filled


def with_ephemeral_defaults(containers: Sequence[Json]) -> list[Json]:
    """Fill the fields of containers that are added to a running pod."""
    return [_default_container(each, host_network=False, template=False) for each in containers]


def _pull_policy(image: str) -> str:
    """Return `Always` if the tag is missing or `latest` and there is no digest."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_resources(resources: Json, *, template: bool) -> Json:
    """Convert quantities to canonical form. A limit is also the default request."""
    filled = dict(resources)
    limits = resources.get("limits")
    requests = resources.get("requests")
    if limits:
        limits = filled["limits"] = canonical_amounts(limits)
    if requests:
        requests = filled["requests"] = canonical_amounts(requests)
    if limits and not template:
        filled["requests"] = {**limits, **(requests or {})}
    return filled


def _default_pod_resources(resources: Json, spec: Json) -> Json:
    """Default pod-level requests to the sum of the containers' requests, or to the limits."""
    filled = _default_resources(resources, template=True)
    limits = filled.get("limits", {})
    requests = dict(filled.get("requests", {}))
    for name, limit in limits.items():
        if name not in requests:
            total = sum(
                (
                    parse_quantity(amount)
                    for container in spec.get("containers", ())
                    if (amount := container["resources"].get("requests", {}).get(name)) is not None
                ),
                ZERO,
            )
            requests[name] = str(total) if total else limit
    if requests:
        filled["requests"] = requests
    return filled


def _default_port(port: Json, *, host_network: bool) -> Json:
    filled = dict(port)
    if not filled.get("protocol"):
        filled["protocol"] = "TCP"
    if host_network and not filled.get("hostPort") and filled.get("containerPort"):
        filled["hostPort"] = filled["containerPort"]
    return filled


def _default_probe(probe: Json) -> Json:
    filled = {**_PROBE_DEFAULTS, **probe}
    if http := probe.get("httpGet"):
        filled["httpGet"] = {"path": "/", "scheme": "HTTP", **http}
    return filled


def _default_volume(volume: Json) -> Json:
    if volume.keys() <= {"name"}:
        return {**volume, "emptyDir": {}}
    for field in _FILE_MODES:
        if (source := volume.get(field)) is not None and source.get("defaultMode") is None:
            return {**volume, field: {**source, "defaultMode": 420}}
    return volume


def qos_class(spec: Json) -> str:
    """Return the QoS class, which depends only on CPU and memory."""
    if (pod_level := spec.get("resources")) and (
        pod_level.get("requests") or pod_level.get("limits")
    ):
        parts = [pod_level]
    else:
        containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
        parts = [container.get("resources", {}) for container in containers]
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    limited = True
    for part in parts:
        _add(requests, part.get("requests", {}))
        bounded = _add(limits, part.get("limits", {}))
        limited = limited and bounded == len(_QOS_RESOURCES)
    if not requests and not limits:
        return "BestEffort"
    if limited and requests == limits:
        return "Guaranteed"
    return "Burstable"


def _add(totals: dict[str, Quantity], amounts: Json) -> int:
    """Add the amounts of CPU and memory to the totals. Returns how many of the two are set."""
    found = 0
    for name in _QOS_RESOURCES:
        if (raw := amounts.get(name)) is not None and (amount := parse_quantity(raw)).sign > 0:
            totals[name] = totals.get(name, ZERO) + amount
            found += 1
    return found
