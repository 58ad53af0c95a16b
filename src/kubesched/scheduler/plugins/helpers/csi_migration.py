"""In-tree volumes translated to the CSI drivers that replaced them.

docs/reference/07 §4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from kubesched.api import (
    CSINode,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    Volume,
    VolumeNodeAffinity,
)
from kubesched.errors import KubeschedError

__all__ = [
    "MIGRATED_PLUGINS",
    "REGION",
    "REGION_BETA",
    "ZONE",
    "ZONE_BETA",
    "InTreePlugin",
    "MigrationError",
    "csi_driver_of_provisioner",
    "in_tree_plugin",
    "is_migrated_on",
    "volume_handle",
    "with_csi_topology",
]

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
ZONE_BETA: Final = "failure-domain.beta.kubernetes.io/zone"
REGION_BETA: Final = "failure-domain.beta.kubernetes.io/region"
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"

_AWS_VOLUME: Final = re.compile(r"vol-[^/]*")
_UNKNOWN: Final = "UNSPECIFIED"


class MigrationError(KubeschedError):
    """An in-tree volume that its CSI driver does not support."""


class InTreePlugin(NamedTuple):
    """A volume plugin that a CSI driver replaced."""

    name: str
    field: str  # of the pod's volume or the PersistentVolume's spec
    driver: str
    zone_key: str = ""  # the driver's own zone label
    is_replaced: bool = True  # the scheduler treats its volumes as the driver's


_PLUGINS: Final = (
    InTreePlugin(
        "kubernetes.io/aws-ebs",
        "aws_elastic_block_store",
        "ebs.csi.aws.com",
        "topology.ebs.csi.aws.com/zone",
    ),
    InTreePlugin(
        "kubernetes.io/gce-pd",
        "gce_persistent_disk",
        "pd.csi.storage.gke.io",
        "topology.gke.io/zone",
    ),
    InTreePlugin(
        "kubernetes.io/cinder",
        "cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
    ),
    InTreePlugin("kubernetes.io/azure-disk", "azure_disk", "disk.csi.azure.com"),
    InTreePlugin("kubernetes.io/portworx-volume", "portworx_volume", "pxd.portworx.com"),
    InTreePlugin("kubernetes.io/azure-file", "azure_file", "file.csi.azure.com", is_replaced=False),
    InTreePlugin(
        "kubernetes.io/vsphere-volume",
        "vsphere_volume",
        "csi.vsphere.vmware.com",
        is_replaced=False,
    ),
)
_BY_NAME: Final = {plugin.name: plugin for plugin in _PLUGINS}


def in_tree_plugin(source: Volume | PersistentVolumeSpec) -> InTreePlugin | None:
    """Return the in-tree plugin of a volume, or None without counterpart."""
    for plugin in _PLUGINS:
        if getattr(source, plugin.field) is not None:
            return plugin
    return None


def csi_driver_of_provisioner(provisioner: str) -> InTreePlugin | None:
    """Return the in-tree plugin of that name, or None if it has no CSI counterpart."""
    return _BY_NAME.get(provisioner)


def is_migrated_on(plugin: InTreePlugin, node: CSINode | None) -> bool:
    """Whether the node uses the CSI driver for the plugin's volumes."""
    if node is None or not plugin.is_replaced:
        return False
    # Not trimmed, as in the reference.
    return plugin.name in node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def volume_handle(
    plugin: InTreePlugin, source: Volume | PersistentVolumeSpec, labels: Mapping[str, str] | None
) -> str:
    """Return the CSI driver's id of a volume.

    `labels` are those of a PersistentVolume.

    Raises:
        MigrationError: the driver does not support the volume.
    """
    return _HANDLES[plugin.name](getattr(source, plugin.field), labels)


def _ebs_handle(source: Any, _labels: Mapping[str, str] | None) -> str:
    volume_id: str = source.volume_id
    if not volume_id.startswith("aws://"):
        return volume_id
    found = urlsplit(volume_id).path.strip("/")
    if not _AWS_VOLUME.fullmatch(found):
        raise MigrationError(
            "failed to translate Kubernetes ID to EBS Volume ID "
            f"Invalid format for AWS volume ({volume_id})"
        )
    return found


def _gce_handle(source: Any, labels: Mapping[str, str] | None) -> str:
    place = f"zones/{_UNKNOWN}"
    if labels is not None:
        zones = [zone for zone in _zone_label(labels).split("__") if zone]
        if len(zones) == 1:
            place = f"zones/{zones[0]}"
        elif zones:
            place = f"regions/{_region_of(zones)}"
    return f"projects/{_UNKNOWN}/{place}/disks/{source.pd_name}"


def _zone_label(labels: Mapping[str, str]) -> str:
    return labels.get(ZONE_BETA) or labels.get(ZONE, "")


def _region_of(zones: Sequence[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise MigrationError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise MigrationError(
            "failed to get region from zones: "
            f"multiple or no regions gotten from zones, got: map[{listed}]"
        )
    return regions.pop()


def _azure_disk_handle(source: Any, _labels: Mapping[str, str] | None) -> str:
    kind = source.kind
    if kind is not None and kind.lower() != "managed":
        raise MigrationError(f"kind({kind}) is not supported in csi migration")
    handle: str = source.disk_uri
    return handle


def _id_handle(source: Any, _labels: Mapping[str, str] | None) -> str:
    handle: str = source.volume_id
    return handle


_HANDLES: Final[Mapping[str, Callable[[Any, Mapping[str, str] | None], str]]] = {
    "kubernetes.io/aws-ebs": _ebs_handle,
    "kubernetes.io/gce-pd": _gce_handle,
    "kubernetes.io/cinder": _id_handle,
    "kubernetes.io/azure-disk": _azure_disk_handle,
    "kubernetes.io/portworx-volume": _id_handle,
}


def with_csi_topology(plugin: InTreePlugin, volume: PersistentVolume) -> PersistentVolume:
    """Return the volume with node affinity on the driver's topology labels.

    Raises:
        MigrationError: the driver does not support the volume.
    """
    volume_handle(plugin, volume.spec, volume.metadata.labels)
    if not plugin.zone_key:
        return volume
    affinity = volume.spec.node_affinity
    required = None if affinity is None else affinity.required
    terms = () if required is None else required.node_selector_terms
    translated = _translated_terms(terms, volume.metadata.labels, plugin.zone_key)
    if translated == terms:
        return volume
    selector = NodeSelector(node_selector_terms=translated)
    spec = replace(volume.spec, node_affinity=VolumeNodeAffinity(required=selector))
    return replace(volume, spec=spec)


def _translated_terms(
    terms: tuple[NodeSelectorTerm, ...], labels: Mapping[str, str], zone_key: str
) -> tuple[NodeSelectorTerm, ...]:
    zone_label, is_beta = _label_generation(terms, labels)
    if any(each.key == zone_label and each.values for each in _expressions(terms)):
        terms = _renamed(terms, zone_label, zone_key)
    elif zones := _zones(labels.get(zone_label, "")):
        wanted = NodeSelectorRequirement(key=zone_key, operator="In", values=zones)
        terms = tuple(
            replace(term, match_expressions=(*term.match_expressions, wanted))
            for term in terms or (NodeSelectorTerm(),)
        )
    if is_beta and any(each.key == REGION_BETA and each.values for each in _expressions(terms)):
        terms = _renamed(terms, REGION_BETA, REGION)
    return terms


def _label_generation(
    terms: tuple[NodeSelectorTerm, ...], labels: Mapping[str, str]
) -> tuple[str, bool]:
    """The zone label that the volume uses, and whether it is the beta label."""
    for known in ([each.key for each in _expressions(terms)], labels):
        if ZONE in known:
            return ZONE, False
        if ZONE_BETA in known:
            return ZONE_BETA, True
    return ZONE, False


def _expressions(terms: tuple[NodeSelectorTerm, ...]) -> Iterator[NodeSelectorRequirement]:
    for term in terms:
        yield from term.match_expressions


def _zones(label: str) -> tuple[str, ...]:
    return tuple(sorted({zone.strip() for zone in label.split("__")} - {""}))


def _renamed(
    terms: tuple[NodeSelectorTerm, ...], old_key: str, new_key: str
) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        replace(
            term,
            match_expressions=tuple(
                replace(each, key=new_key) if each.key == old_key else each
                for each in term.match_expressions
            ),
        )
        for term in terms
    )
