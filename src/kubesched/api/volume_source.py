"""The sources of volumes, inline in a pod or in a persistent volume."""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api.base import ApiStruct, Int32, RawQuantity
from kubesched.api.reference import LocalObjectReference, ObjectReference, SecretReference

__all__ = [
    "AWSElasticBlockStoreVolumeSource",
    "AzureDiskVolumeSource",
    "AzureFilePersistentVolumeSource",
    "AzureFileVolumeSource",
    "CSIPersistentVolumeSource",
    "CSIVolumeSource",
    "CephFSPersistentVolumeSource",
    "CephFSVolumeSource",
    "CinderPersistentVolumeSource",
    "CinderVolumeSource",
    "ConfigMapVolumeSource",
    "DownwardAPIVolumeSource",
    "EmptyDirVolumeSource",
    "FCVolumeSource",
    "FlexPersistentVolumeSource",
    "FlexVolumeSource",
    "FlockerVolumeSource",
    "GCEPersistentDiskVolumeSource",
    "GitRepoVolumeSource",
    "GlusterfsPersistentVolumeSource",
    "GlusterfsVolumeSource",
    "HostPathVolumeSource",
    "ISCSIPersistentVolumeSource",
    "ISCSIVolumeSource",
    "ImageVolumeSource",
    "KeyToPath",
    "LocalVolumeSource",
    "NFSVolumeSource",
    "PersistentVolumeClaimVolumeSource",
    "PhotonPersistentDiskVolumeSource",
    "PortworxVolumeSource",
    "ProjectedVolumeSource",
    "QuobyteVolumeSource",
    "RBDPersistentVolumeSource",
    "RBDVolumeSource",
    "ScaleIOPersistentVolumeSource",
    "ScaleIOVolumeSource",
    "SecretVolumeSource",
    "StorageOSPersistentVolumeSource",
    "StorageOSVolumeSource",
    "VsphereVirtualDiskVolumeSource",
]


class HostPathVolumeSource(ApiStruct):
    path: str = ""
    type: str | None = None


class EmptyDirVolumeSource(ApiStruct):
    medium: str = ""
    size_limit: RawQuantity | None = None


class GCEPersistentDiskVolumeSource(ApiStruct):
    pd_name: str = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(ApiStruct):
    volume_id: str = msgspec.field(name="volumeID", default="")
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class GitRepoVolumeSource(ApiStruct):
    repository: str = ""
    revision: str = ""
    directory: str = ""


class KeyToPath(ApiStruct):
    key: str = ""
    path: str = ""
    mode: Int32 | None = None


class SecretVolumeSource(ApiStruct):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 | None = None
    optional: bool | None = None


class ConfigMapVolumeSource(ApiStruct):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 | None = None
    optional: bool | None = None


class DownwardAPIVolumeSource(ApiStruct):
    items: tuple[dict[str, Any], ...] = ()
    default_mode: Int32 | None = None


class ProjectedVolumeSource(ApiStruct):
    """A projected volume, such as the one for a pod's token.

    Its sources stay plain JSON.
    """

    sources: tuple[dict[str, Any], ...] = ()
    default_mode: Int32 | None = None


class NFSVolumeSource(ApiStruct):
    server: str = ""
    path: str = ""
    read_only: bool = False


class ISCSIVolumeSource(ApiStruct):
    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    iscsi_interface: str = ""
    fs_type: str = ""
    read_only: bool = False
    portals: tuple[str, ...] = ()
    chap_auth_discovery: bool = False
    chap_auth_session: bool = False
    secret_ref: LocalObjectReference | None = None
    initiator_name: str | None = None


class ISCSIPersistentVolumeSource(ApiStruct):
    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    iscsi_interface: str = ""
    fs_type: str = ""
    read_only: bool = False
    portals: tuple[str, ...] = ()
    chap_auth_discovery: bool = False
    chap_auth_session: bool = False
    secret_ref: SecretReference | None = None
    initiator_name: str | None = None


class GlusterfsVolumeSource(ApiStruct):
    endpoints: str = ""
    path: str = ""
    read_only: bool = False


class GlusterfsPersistentVolumeSource(ApiStruct):
    endpoints: str = ""
    path: str = ""
    read_only: bool = False
    endpoints_namespace: str | None = None


class PersistentVolumeClaimVolumeSource(ApiStruct):
    claim_name: str = ""
    read_only: bool = False


class RBDVolumeSource(ApiStruct):
    monitors: tuple[str, ...] = ()
    image: str = ""
    fs_type: str = ""
    pool: str = ""
    user: str = ""
    keyring: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: bool = False


class RBDPersistentVolumeSource(ApiStruct):
    monitors: tuple[str, ...] = ()
    image: str = ""
    fs_type: str = ""
    pool: str = ""
    user: str = ""
    keyring: str = ""
    secret_ref: SecretReference | None = None
    read_only: bool = False


class FlexVolumeSource(ApiStruct):
    driver: str = ""
    fs_type: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: bool = False
    options: dict[str, str] = {}


class FlexPersistentVolumeSource(ApiStruct):
    driver: str = ""
    fs_type: str = ""
    secret_ref: SecretReference | None = None
    read_only: bool = False
    options: dict[str, str] = {}


class CinderVolumeSource(ApiStruct):
    volume_id: str = msgspec.field(name="volumeID", default="")
    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None


class CinderPersistentVolumeSource(ApiStruct):
    volume_id: str = msgspec.field(name="volumeID", default="")
    fs_type: str = ""
    read_only: bool = False
    secret_ref: SecretReference | None = None


class CephFSVolumeSource(ApiStruct):
    monitors: tuple[str, ...] = ()
    path: str = ""
    user: str = ""
    secret_file: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: bool = False


class CephFSPersistentVolumeSource(ApiStruct):
    monitors: tuple[str, ...] = ()
    path: str = ""
    user: str = ""
    secret_file: str = ""
    secret_ref: SecretReference | None = None
    read_only: bool = False


class FlockerVolumeSource(ApiStruct):
    dataset_name: str = ""
    dataset_uuid: str = msgspec.field(name="datasetUUID", default="")


class FCVolumeSource(ApiStruct):
    target_wwns: tuple[str, ...] = msgspec.field(name="targetWWNs", default=())
    lun: Int32 | None = None
    fs_type: str = ""
    read_only: bool = False
    wwids: tuple[str, ...] = ()


class AzureFileVolumeSource(ApiStruct):
    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False


class AzureFilePersistentVolumeSource(ApiStruct):
    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False
    secret_namespace: str | None = None


class VsphereVirtualDiskVolumeSource(ApiStruct):
    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = msgspec.field(name="storagePolicyID", default="")


class QuobyteVolumeSource(ApiStruct):
    registry: str = ""
    volume: str = ""
    read_only: bool = False
    user: str = ""
    group: str = ""
    tenant: str = ""


class AzureDiskVolumeSource(ApiStruct):
    disk_name: str = ""
    disk_uri: str = msgspec.field(name="diskURI", default="")
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class PhotonPersistentDiskVolumeSource(ApiStruct):
    pd_id: str = msgspec.field(name="pdID", default="")
    fs_type: str = ""


class PortworxVolumeSource(ApiStruct):
    volume_id: str = msgspec.field(name="volumeID", default="")
    fs_type: str = ""
    read_only: bool = False


class ScaleIOVolumeSource(ApiStruct):
    gateway: str = ""
    system: str = ""
    secret_ref: LocalObjectReference | None = None
    ssl_enabled: bool = False
    protection_domain: str = ""
    storage_pool: str = ""
    storage_mode: str = ""
    volume_name: str = ""
    fs_type: str = ""
    read_only: bool = False


class ScaleIOPersistentVolumeSource(ApiStruct):
    gateway: str = ""
    system: str = ""
    secret_ref: SecretReference | None = None
    ssl_enabled: bool = False
    protection_domain: str = ""
    storage_pool: str = ""
    storage_mode: str = ""
    volume_name: str = ""
    fs_type: str = ""
    read_only: bool = False


class StorageOSVolumeSource(ApiStruct):
    volume_name: str = ""
    volume_namespace: str = ""
    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None


class StorageOSPersistentVolumeSource(ApiStruct):
    volume_name: str = ""
    volume_namespace: str = ""
    fs_type: str = ""
    read_only: bool = False
    secret_ref: ObjectReference | None = None


class CSIVolumeSource(ApiStruct):
    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] = {}
    node_publish_secret_ref: LocalObjectReference | None = None


class CSIPersistentVolumeSource(ApiStruct):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] = {}
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class LocalVolumeSource(ApiStruct):
    path: str = ""
    fs_type: str | None = None


class ImageVolumeSource(ApiStruct):
    reference: str = ""
    pull_policy: str = ""
