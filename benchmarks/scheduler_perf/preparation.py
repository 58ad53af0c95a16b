"""Documents prepared before a step begins, so that their preparation is not measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scheduler_perf.cluster import with_metadata
from benchmarks.scheduler_perf.templates import Json, Template

__all__ = ["VolumePods", "node_documents", "pod_documents", "volume_pods"]

_NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"generateName": "scheduler-perf-"},
    "status": {
        "capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
_POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10.1",
                "ports": [{"containerPort": 80}],
                "resources": {
                    "limits": {"cpu": "100m", "memory": "500Mi"},
                    "requests": {"cpu": "100m", "memory": "500Mi"},
                },
            }
        ]
    },
}
_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"


def pod_documents(file: Path | None, count: int) -> list[Json]:
    if file is None:
        return [_POD] * count
    template = Template.read(file)
    return [_spelled(template.document(index, count)) for index in range(count)]


def _spelled(pod: Json) -> Json:
    """The pod with field names as the API has them: Go's decoder does not mind their case."""
    constraints = pod["spec"].get("topologySpreadConstraints")
    if not constraints:
        return pod
    mended = [
        {key[0].lower() + key[1:]: value for key, value in constraint.items()}
        for constraint in constraints
    ]
    return {**pod, "spec": {**pod["spec"], "topologySpreadConstraints": mended}}


def node_documents(
    step: Mapping[str, Any], directory: Path, count: int, first_number: int
) -> list[Json]:
    """Return nodes with the labels and amounts that the step's strategies request.

    A node without a name gets one from its number, because its hostname label repeats it.
    """
    documents = [_NODE] * count
    if path := step.get("nodeTemplatePath"):
        template = Template.read(directory / path)
        documents = [template.document(index, count) for index in range(count)]
    documents = [_named(document, first_number + index) for index, document in enumerate(documents)]
    if unique := step.get("uniqueNodeLabelStrategy"):
        documents = [
            _labelled(document, unique["labelKey"], f"{index}")
            for index, document in enumerate(documents)
        ]
    if labelling := step.get("labelNodePrepareStrategy"):
        values = labelling["labelValues"]
        documents = [
            _labelled(document, labelling["labelKey"], values[index % len(values)])
            for index, document in enumerate(documents)
        ]
    if allocatable := step.get("nodeAllocatableStrategy", {}).get("nodeAllocatable"):
        documents = [_with_amounts(document, allocatable) for document in documents]
    return documents


def csi_node(node_name: str, strategy: Mapping[str, Any]) -> Json | None:
    """Return the CSINode of a node, if the strategy has volume drivers."""
    drivers = strategy.get("csiNodeAllocatable")
    if not drivers:
        return None
    metadata: Json = {"name": node_name}
    if migrated := strategy.get("migratedPlugins"):
        metadata["annotations"] = {_MIGRATED_PLUGINS: ",".join(migrated)}
    entries = [
        {"name": name, "nodeID": node_name, "allocatable": limits}
        for name, limits in drivers.items()
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {"drivers": entries},
    }


class VolumePods(NamedTuple):
    """A pod's volume, its claim bound to it, and the pod that uses it."""

    volume: Json
    claim: Json
    pod: Json


def volume_pods(
    pods: list[Json], volume: Template, claim: Template, namespace: str
) -> list[VolumePods]:
    """Return one volume for each pod.

    Claims are named `pvc-0` and so on, as other templates expect.
    """
    made = []
    for index, pod in enumerate(pods):
        volume_name, claim_name = f"pv-{namespace}-{index}", f"pvc-{index}"
        volume_document = with_metadata(volume.document(index, len(pods)), name=volume_name)
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        reference |= {"namespace": namespace, "name": claim_name}
        volume_document["spec"] = {**volume_document["spec"], "claimRef": reference}
        if "csi" in volume_document["spec"]:
            handle = {**volume_document["spec"]["csi"], "volumeHandle": volume_name}
            volume_document["spec"]["csi"] = handle
        claim_document = with_metadata(claim.document(index, len(pods)), name=claim_name)
        claim_document["spec"] = {**claim_document["spec"], "volumeName": volume_name}
        source = {"name": "vol", "persistentVolumeClaim": {"claimName": claim_name}}
        pod_document = {**pod, "spec": {**pod["spec"], "volumes": [source]}}
        made.append(VolumePods(volume_document, claim_document, pod_document))
    return made


def _named(document: Json, number: int) -> Json:
    metadata = document["metadata"]
    name = metadata.get("name") or f"{metadata['generateName']}{number:05d}"
    return with_metadata(_labelled(document, "kubernetes.io/hostname", name), name=name)


def _labelled(document: Json, key: str, value: str) -> Json:
    labels = document["metadata"].get("labels") or {}
    return with_metadata(document, labels={**labels, key: value})


def _with_amounts(document: Json, amounts: Mapping[str, str]) -> Json:
    status = document["status"]
    filled = {
        field: {**(status.get(field) or status["capacity"]), **amounts}
        for field in ("capacity", "allocatable")
    }
    return {**document, "status": {**status, **filled}}
