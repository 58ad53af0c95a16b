"""A pod's spec in the form of the reference's internal Go structures.

One error text needs this form: the reference shows a forbidden change of a spec as a diff of its
internal structures, with their field names, order and empty fields. Parts without a table here
keep their fields as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["pod_spec_view"]

# The name of the Go field, the name in JSON, and the value if the field is absent.
Layout = tuple[tuple[str, str, Any], ...]


def _names(*fields: str) -> Layout:
    """Return fields whose names differ only in the case of the first letter; null if absent."""
    return tuple((field, field[0].lower() + field[1:], None) for field in fields)


def _texts(*fields: str) -> Layout:
    return tuple((field, field[0].lower() + field[1:], "") for field in fields)


def _flags(*fields: str) -> Layout:
    return tuple((field, field[0].lower() + field[1:], False) for field in fields)


_PORT: Layout = (
    *_texts("Name"),
    ("HostPort", "hostPort", 0),
    ("ContainerPort", "containerPort", 0),
    *_texts("Protocol", "HostIP"),
)
_RESOURCES: Layout = _names("Limits", "Requests", "Claims")
_CONTAINER: Layout = (
    *_texts("Name", "Image"),
    *_names("Command", "Args"),
    *_texts("WorkingDir"),
    *_names("Ports", "EnvFrom", "Env"),
    ("Resources", "resources", {}),
    *_names(
        "ResizePolicy",
        "RestartPolicy",
        "RestartPolicyRules",
        "VolumeMounts",
        "VolumeDevices",
        "LivenessProbe",
        "ReadinessProbe",
        "StartupProbe",
        "Lifecycle",
    ),
    *_texts("TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy"),
    *_names("SecurityContext"),
    *_flags("Stdin", "StdinOnce"),
    ("TTY", "tty", False),
)
_SECURITY: Layout = (
    *_flags("HostNetwork", "HostPID", "HostIPC"),
    *_names("ShareProcessNamespace", "HostUsers"),
    ("SELinuxOptions", "seLinuxOptions", None),
    *_names(
        "WindowsOptions",
        "RunAsUser",
        "RunAsGroup",
        "RunAsNonRoot",
        "SupplementalGroups",
        "SupplementalGroupsPolicy",
    ),
    ("FSGroup", "fsGroup", None),
    ("FSGroupChangePolicy", "fsGroupChangePolicy", None),
    *_names("Sysctls", "SeccompProfile", "AppArmorProfile"),
    ("SELinuxChangePolicy", "seLinuxChangePolicy", None),
)
_TOLERATION: Layout = (*_texts("Key", "Operator", "Value", "Effect"), *_names("TolerationSeconds"))
_AFFINITY: Layout = _names("NodeAffinity", "PodAffinity", "PodAntiAffinity")
_POD: Layout = (
    *_names("Volumes", "InitContainers", "Containers", "EphemeralContainers"),
    *_texts("RestartPolicy"),
    *_names("TerminationGracePeriodSeconds", "ActiveDeadlineSeconds"),
    ("DNSPolicy", "dnsPolicy", ""),
    *_names("NodeSelector"),
    *_texts("ServiceAccountName"),
    *_names("AutomountServiceAccountToken"),
    *_texts("NodeName"),
    *_names("SecurityContext", "ImagePullSecrets"),
    *_texts("Hostname", "Subdomain"),
    ("SetHostnameAsFQDN", "setHostnameAsFQDN", None),
    *_names("Affinity"),
    *_texts("SchedulerName"),
    *_names("Tolerations", "HostAliases"),
    *_texts("PriorityClassName"),
    *_names("Priority", "PreemptionPolicy"),
    ("DNSConfig", "dnsConfig", None),
    *_names("ReadinessGates", "RuntimeClassName", "Overhead", "EnableServiceLinks"),
    *_names("TopologySpreadConstraints"),
    ("OS", "os", None),
    *_names("SchedulingGates", "ResourceClaims", "Resources", "HostnameOverride"),
    *_names("SchedulingGroup"),
)

# The values of these fields are maps with arbitrary keys, or types that keep their JSON names.
_AS_IS = frozenset(
    {"nodeSelector", "limits", "requests", "overhead", "labelSelector", "namespaceSelector"}
)


def pod_spec_view(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a spec to the form of the Go structures."""
    moved = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
    inner = dict(spec.get("securityContext") or {})
    inner.update({field: spec[field] for field in moved if field in spec})
    outer = {key: value for key, value in spec.items() if key not in moved}
    shown = _laid_out(outer, _POD)
    if inner or "securityContext" in spec:
        shown["SecurityContext"] = _laid_out(inner, _SECURITY)
    return shown


def _laid_out(value: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    shown = {}
    for name, field, absent in layout:
        part = value.get(field)
        shown[name] = _show(field, absent if part is None else part)
    return shown


def _show(field: str, value: Any) -> Any:
    if field in _AS_IS:
        return value
    if isinstance(value, list):
        return [_show_item(field, item) for item in value]
    return _show_item(field, value)


def _show_item(field: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if (layout := _LAYOUTS.get(field)) is not None:
        return _laid_out(value, layout)
    return {key[:1].upper() + key[1:]: _show(key, item) for key, item in value.items()}


_LAYOUTS: dict[str, Layout] = {
    "affinity": _AFFINITY,
    "containers": _CONTAINER,
    "initContainers": _CONTAINER,
    "ports": _PORT,
    "resources": _RESOURCES,
    "tolerations": _TOLERATION,
}
