"""Classification of resources by name (docs/reference/05 §3.1)."""

from __future__ import annotations

from typing import Final

from kubesched.api.sized_caches import cached_unless, is_long
from kubesched.api.validation import is_label_key

__all__ = [
    "CPU",
    "DEVICE_CLASS_PREFIX",
    "EPHEMERAL_STORAGE",
    "HUGEPAGES_PREFIX",
    "MEMORY",
    "PODS",
    "STORAGE",
    "is_attachable_volume_resource_name",
    "is_extended_resource_name",
    "is_hugepage_resource_name",
    "is_native_resource_name",
    "is_pod_level_resource_name",
    "is_scalar_resource_name",
]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
STORAGE: Final = "storage"

HUGEPAGES_PREFIX: Final = "hugepages-"
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
_ATTACHABLE_VOLUMES_PREFIX: Final = "attachable-volumes-"
_NATIVE_DOMAIN: Final = "kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."


def is_hugepage_resource_name(name: str) -> bool:
    return name.startswith(HUGEPAGES_PREFIX)


def is_attachable_volume_resource_name(name: str) -> bool:
    return name.startswith(_ATTACHABLE_VOLUMES_PREFIX)


def is_native_resource_name(name: str) -> bool:
    """Whether the name has no domain, or `kubernetes.io/` anywhere in it."""
    return "/" not in name or _NATIVE_DOMAIN in name


def _is_extended(name: str) -> bool:
    if is_native_resource_name(name) or name.startswith(_QUOTA_PREFIX):
        return False
    return is_label_key(_QUOTA_PREFIX + name)


@cached_unless(is_long, 4096)
def is_extended_resource_name(name: str) -> bool:
    """Whether the name is in a vendor's domain, such as `nvidia.com/gpu`."""
    return _is_extended(name)


@cached_unless(is_long, 4096)
def is_scalar_resource_name(name: str) -> bool:
    """Whether the resource is counted besides cpu, memory and ephemeral storage."""
    return (
        # Not `is_extended_resource_name`: a node with 30,000 resources would miss both caches.
        _is_extended(name)
        or is_hugepage_resource_name(name)
        or _NATIVE_DOMAIN in name
        or is_attachable_volume_resource_name(name)
    )


def is_pod_level_resource_name(name: str) -> bool:
    """Whether the resource can be requested on the pod level."""
    return name in (CPU, MEMORY) or is_hugepage_resource_name(name)
