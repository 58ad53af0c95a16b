"""Exported files have no secrets: words are planted in every field of every kind.

The words that must not appear are chosen here by their paths in the published schema, and not by
the table of the program.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import re
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.api.codec import from_builtins
from kubesched.cli.record_action import TraceFile
from kubesched.dashboard.page_queries import PageQueries
from kubesched.dashboard.timeline import Timeline, Timelines
from kubesched.explain import Snapshot
from kubesched.explain.clusters.anonymizing import Anonymizer
from kubesched.explain.clusters.capture import Capture, read_capture, write_capture
from kubesched.explain.clusters.sources import SCHEDULING_KINDS
from kubesched.scheduler.config.load import configuration_from_builtins
from kubesched.sim.recording import Recording
from kubesched.testing.objects.random_clusters import random_cluster
from tests.planted_objects import PlantedObjects

# Fields that may contain secrets, or data of the programs that run: by path in the schema.
SENSITIVE = re.compile(
    r"\.(command|args|env|envFrom|data|stringData|parameters|volumeAttributes|mountOptions"
    r"|annotations|message|secretRef|imagePullSecrets|securityContext|livenessProbe|startupProbe"
    r"|dataSource|dataSourceRef|dnsConfig|hostAliases|hostname|subdomain|opaque|networkData"
    r"|managedFields|description|addresses|machineID|systemUUID|bootID|providerID|podCIDRs?"
    r"|nodeID|volumeDevices|volumeMounts|workingDir|imageID|containerID|status\.hostIPs?|podIPs?"
    r"|loadBalancerIP|externalName|externalIPs|clusterIPs?|serviceAccountName|secrets|configMap"
    r"|secret|projected|downwardAPI|hostPath|nfs|flexVolume|gitRepo|csi\.\w*[sS]ecret\w*"
    r"|tokenRequests|httpGet|postStart|exec)\b"
)
NEEDED = (
    "Pod.metadata.labels{=}",
    "Pod.spec.schedulerName",
    "Pod.spec.containers[].image",
    "Pod.spec.containers[].resources.requests{}",
    "Pod.spec.nodeName",
    "Node.metadata.name",
    "Node.spec.taints[].key",
    "PersistentVolume.spec.csi.volumeHandle",
    "StorageClass.provisioner",
    "DeviceClass.spec.selectors[].cel.expression",
)
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"kubeconfig": "/home/planted-kubeconfig"},
    "leaderElection": {"resourceName": "planted-lease"},
    "profiles": [{"schedulerName": "planted-scheduler", "pluginConfig": []}],
    "extenders": [
        {
            "urlPrefix": "https://planted-user:planted-password@planted-host:8443/x?key=planted-key",
            "filterVerb": "planted-verb",
            "httpTimeout": "5s",
            "tlsConfig": {"keyData": "planted-private", "keyFile": "/planted-file"},
            "managedResources": [{"name": "planted.example/resource", "ignoredByScheduler": True}],
        }
    ],
}
QUEUE = {
    "taken": "2026-01-01T00:00:00Z",
    "pods": {"planted-ns/planted-pod": {"place": "active", "nominated_to": "planted-node"}},
}


class PlantedCluster:
    """One object of every kind, with the words in it."""

    def __init__(self) -> None:
        planted = PlantedObjects()
        self.objects: list[Any] = [
            from_builtins(planted.document(kind), kind.type) for kind in SCHEDULING_KINDS
        ]
        self.words = planted.words
        self.sensitive = {
            word: path for path, word in planted.words.items() if SENSITIVE.search(path)
        }

    def leaked(self, text: str) -> list[str]:
        return sorted(
            self.sensitive[word]
            for word in set(re.findall(r"planted\d{5}", text)) & {*self.sensitive}
        )


@pytest.fixture(scope="module")
def planted() -> PlantedCluster:
    return PlantedCluster()


def written(path: Path, objects: Any, *, anonymize: bool = False) -> str:
    capture = Capture(tuple(objects), "2026-01-01T00:00:00Z", (), CONFIGURATION, QUEUE)
    write_capture(capture, path, anonymize=anonymize)
    return gzip.decompress(path.read_bytes()).decode()


def test_a_capture_has_only_what_scheduling_reads(planted: PlantedCluster, tmp_path: Path) -> None:
    text = written(tmp_path / "c", planted.objects)
    assert len(planted.sensitive) > 1000
    assert planted.leaked(text) == []
    for path in NEEDED:
        assert planted.words[path] in text, path
    for word in ("kubeconfig", "lease", "user", "password", "key", "private", "file"):
        assert f"planted-{word}" not in text
    assert "https://planted-host:8443/x" in text


def test_an_anonymous_capture_contains_no_name_of_the_cluster(
    planted: PlantedCluster, tmp_path: Path
) -> None:
    text = written(tmp_path / "c", planted.objects, anonymize=True)
    assert "planted" not in text
    assert len(read_capture(tmp_path / "c").objects) > 20


def test_a_recording_has_only_what_scheduling_reads(planted: PlantedCluster) -> None:
    pod = next(each for each in planted.objects if isinstance(each, Pod))
    # A gated pod would be recorded when its gates are removed.
    pod = replace(pod, spec=replace(pod.spec, scheduling_gates=()))
    recording = Recording(0)
    lines = [*recording.record("ADDED", pod, 0), *recording.record("DELETED", pod, 1)]
    text = b"".join(lines).decode()
    assert planted.leaked(text) == []
    for path in NEEDED[:4]:
        assert planted.words[path] in text, path


def test_explanations_and_pages_show_only_what_scheduling_reads(planted: PlantedCluster) -> None:
    # With the same types as the objects of a live cluster.
    snapshot = Snapshot(planted.objects)
    (pod,) = snapshot.model.objects.list(Pod)
    answer = snapshot.explain(pod)
    assert planted.leaked(msgspec.json.encode(answer.to_dict()).decode()) == []
    assert planted.leaked(answer.to_html()) == []


def test_only_the_user_can_read_a_capture(planted: PlantedCluster, tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(b"an older capture")
    path.chmod(0o644)
    before = os.umask(0)
    try:
        written(path, planted.objects)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("seed", range(12))
def test_anonymous_captures_have_the_same_decisions(seed: int, tmp_path: Path) -> None:
    cluster = random_cluster(random.Random(seed), nodes=12, pods=30)
    answers = []
    for anonymize in (False, True):
        path = tmp_path / f"{anonymize}"
        capture = Capture(cluster.objects, "2026-01-01T00:00:00Z")
        write_capture(capture, path, anonymize=anonymize)
        answers.append(decisions(Snapshot.from_capture(path)))
    assert answers[0] == answers[1]


def decisions(snapshot: Snapshot) -> list[Any]:
    """Return the decisions about every pod; nodes are named by their index."""
    nodes = [each.metadata.name for each in snapshot.model.objects.list(Node)]
    pods = list(snapshot.model.objects.list(Pod))
    found = []
    for pod in pods[::3]:
        answer = snapshot.explain(pod, suggest=False)
        scores = [(nodes.index(each.node), each.total) for each in answer.scores]
        node = nodes.index(answer.node) if answer.node else -1
        found.append((answer.verdict, node, answer.feasible, scores))
    return found


def test_composed_names_stay_composed_after_anonymizing() -> None:
    objects = [
        {"kind": "StatefulSet", "metadata": {"name": "acme-db"}},
        {"kind": "Pod", "metadata": {"name": "acme-db-12"}},
        {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "metadata": {"name": "disk-acme-db-12"},
        },
    ]
    kinds = {kind.kind: kind for kind in SCHEDULING_KINDS}
    typed = [from_builtins(each, kinds[each["kind"]].type) for each in objects]
    hide = Anonymizer(typed)
    owner, pod, claim = (hide.document(each)["metadata"]["name"] for each in typed)
    assert pod == f"{owner}-12"
    assert claim.endswith(f"-{pod}")
    assert "acme" not in owner


def test_expressions_about_devices_retain_their_meaning() -> None:
    expression = (
        "device.driver == 'gpu.acme.com' && device.attributes['gpu.acme.com'].secretModel == "
        "\"A9\" && device.capacity['gpu.acme.com'].memory.compareTo(quantity('10Gi')) >= 0 // note"
    )
    documents = [
        {
            "kind": "DeviceClass",
            "metadata": {"name": "c"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        },
        {
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.acme.com",
                "pool": {"name": "p", "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": "d",
                        "attributes": {"secretModel": {"string": "A9"}},
                        "capacity": {"memory": {"value": "20Gi"}},
                    }
                ],
            },
        },
    ]
    kinds = {kind.kind: kind for kind in SCHEDULING_KINDS}
    typed = [from_builtins(each, kinds[each["kind"]].type) for each in documents]
    hide = Anonymizer(typed)
    hidden, slices = (hide.document(each) for each in typed)
    text = hidden["spec"]["selectors"][0]["cel"]["expression"]
    device = slices["spec"]["devices"][0]
    (name,) = device["attributes"]
    assert f"device.driver == '{slices['spec']['driver']}'" in text
    assert f'].{name} == "{device["attributes"][name]["string"]}"' in text
    assert "].memory.compareTo(quantity('10Gi')) >= 0" in text
    for word in ("acme", "secretModel", "A9", "note"):
        assert word not in text


def test_a_page_for_readers_has_no_keys_of_extenders() -> None:
    configuration = configuration_from_builtins(
        {
            **CONFIGURATION,
            "extenders": [
                {
                    "urlPrefix": "https://planted-user:planted-password@host:8443/x",
                    "filterVerb": "filter",
                    "enableHTTPS": True,
                    "tlsConfig": {"keyFile": "/planted-file", "certFile": "/planted-file"},
                }
            ],
        }
    )
    run = Timeline("capture", (), end=0, configuration=configuration)
    page = PageQueries(Timelines([run]), title="t", now_ns=lambda: 0)
    text = asyncio.run(page.get("configuration", {}))["text"]
    assert "https://host:8443/x" in text
    assert "planted-scheduler" in text
    for word in ("user", "password", "file", "kubeconfig", "lease"):
        assert f"planted-{word}" not in text


def test_only_the_user_can_read_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"")
    path.chmod(0o644)
    trace = TraceFile(path)
    trace.write(b"{}\n")
    trace.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
