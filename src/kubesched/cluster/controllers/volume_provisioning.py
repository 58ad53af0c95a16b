"""A stand-in for a storage system: it creates volumes for claims.

A storage class may have a parameter `topologyKey`. Its volumes then belong to the topology domain
of the selected node, or, without one, to the first of the class's allowed topologies. On a claim,
the annotation `kubesched.io/provision: fail` makes provisioning fail, and
`kubesched.io/provision-delay` sets its duration.
"""

from __future__ import annotations

from typing import Any

from kubesched.api import Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from kubesched.api.time import parse_time
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, Patch, RecordEvent
from kubesched.cluster.nodes.pod_behavior import PREFIX, duration_ns

__all__ = ["PROVISIONER", "STORAGE_CLASSES", "plan_provisioning"]

Json = dict[str, Any]

PROVISIONER = "kubesched.io/simulated"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def _storage_class(name: str, mode: str, *, is_default: bool = False) -> Json:
    metadata: Json = {"name": name}
    if is_default:
        metadata["annotations"] = {_DEFAULT_CLASS: "true"}
    return {
        "metadata": metadata,
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
    }


# The classes that a new cluster has.
STORAGE_CLASSES = (
    _storage_class("standard", "WaitForFirstConsumer", is_default=True),
    _storage_class("immediate", "Immediate"),
)


def plan_provisioning(
    objects: ObjectIndex, claim: PersistentVolumeClaim, storage_class: StorageClass, now_ns: int
) -> ActionPlan:
    """Create a volume for a claim if its class has our provisioner."""
    metadata = claim.metadata
    provisioner = storage_class.provisioner
    actions: list[Action] = []
    if metadata.annotations.get(_STORAGE_PROVISIONER) != provisioner:
        notes = {_STORAGE_PROVISIONER: provisioner, _BETA_PROVISIONER: provisioner}
        actions.append(Patch(claim, {"metadata": {"annotations": notes}}))
    if provisioner != PROVISIONER:
        text = (
            "Waiting for a volume to be created either by the external provisioner "
            f"'{provisioner}' or manually by the system administrator. If volume creation is "
            "delayed, please verify that the provisioner is running and correctly registered."
        )
        return ActionPlan([*actions, RecordEvent(claim, "ExternalProvisioning", text)])
    if metadata.annotations.get(f"{PREFIX}provision") == "fail":
        text = f'failed to provision volume with StorageClass "{storage_class.metadata.name}": '
        text += "the claim requests a failure"
        actions.append(RecordEvent(claim, "ProvisioningFailed", text, warning=True))
        if _SELECTED_NODE in metadata.annotations:
            # The scheduler has to select another node.
            actions.append(Patch(claim, {"metadata": {"annotations": {_SELECTED_NODE: None}}}))
        return ActionPlan(actions)
    delay_ns = duration_ns(metadata.annotations.get(f"{PREFIX}provision-delay", ""))
    if delay_ns and metadata.creation_timestamp is not None:
        ready_ns = parse_time(metadata.creation_timestamp) + delay_ns
        if ready_ns > now_ns:
            return ActionPlan(actions, ready_ns)
    actions.append(Create(PersistentVolume, _volume(objects, claim, storage_class), optional=True))
    text = f"Successfully provisioned volume pvc-{metadata.uid}"
    actions.append(RecordEvent(claim, "ProvisioningSucceeded", text))
    return ActionPlan(actions)


def _volume(
    objects: ObjectIndex, claim: PersistentVolumeClaim, storage_class: StorageClass
) -> Json:
    metadata = claim.metadata
    name = f"pvc-{metadata.uid}"
    spec: Json = {
        "capacity": {"storage": claim.spec.resources.requests.get("storage", "1Gi")},
        "accessModes": list(claim.spec.access_modes),
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy or "Delete",
        "storageClassName": storage_class.metadata.name,
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "csi": {"driver": PROVISIONER, "volumeHandle": name},
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        },
    }
    terms = _topology(objects, claim, storage_class)
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    notes = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
    return {"metadata": {"name": name, "annotations": notes}, "spec": spec}


def _topology(
    objects: ObjectIndex, claim: PersistentVolumeClaim, storage_class: StorageClass
) -> list[Json]:
    """Return the node selector terms of a volume; without terms every node can use it."""
    key = storage_class.parameters.get("topologyKey", "")
    node: Node | None = objects.find(Node, "", claim.metadata.annotations.get(_SELECTED_NODE, ""))
    if key and node is not None and key in node.metadata.labels:
        return [_term({key: [node.metadata.labels[key]]})]
    for allowed in storage_class.allowed_topologies:
        return [
            _term({each.key: list(each.values[:1]) for each in allowed.match_label_expressions})
        ]
    return []


def _term(labels: dict[str, list[str]]) -> Json:
    return {
        "matchExpressions": [
            {"key": key, "operator": "In", "values": values} for key, values in labels.items()
        ]
    }
