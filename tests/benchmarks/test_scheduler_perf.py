"""The reference's workload files: all are parsed, and small ones run to the end."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.scheduler_perf import runner
from benchmarks.scheduler_perf.__main__ import main
from benchmarks.scheduler_perf.cluster import Cluster
from benchmarks.scheduler_perf.devices import DeviceDriver, allocate_claims, create_claims
from benchmarks.scheduler_perf.features import missing_features
from benchmarks.scheduler_perf.files import (
    Workload,
    WorkloadFileError,
    find_files,
    read_workloads,
    wanted,
)
from benchmarks.scheduler_perf.operations import OPCODES
from benchmarks.scheduler_perf.preparation import node_documents
from benchmarks.scheduler_perf.templates import Template, TemplateError
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import ManualClock

FILE = """
- name: Family
  featureGates: {A: true, B: true}
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - opcode: createPodSets
    countParam: $sets
    namespacePrefix: set
    createPodsOp: {opcode: createPods, countParam: $pods}
  - {opcode: createResourceDriver, maxClaimsPerNodeParam: $maxClaimsPerNode}
  workloads:
  - name: Small
    labels: [short, performance]
    threshold: 70
    featureGates: {B: false}
    params: {nodes: 100, sets: 2, pods: 10, maxClaimsPerNode: 10}
"""


@pytest.fixture
def workload_file(tmp_path: Path) -> Path:
    file = tmp_path / "performance-config.yaml"
    file.write_text(FILE)
    return file


def test_params_are_filled_in_where_steps_name_them(workload_file: Path) -> None:
    (workload,) = read_workloads(workload_file)
    nodes, sets, driver = workload.steps
    assert nodes["count"] == 100
    assert sets["createPodsOp"] == {"opcode": "createPods", "count": 10}
    assert driver["maxClaimsPerNode"] == 10
    assert workload.gates == {"A": True, "B": False}
    assert workload.threshold == 70


def test_scale_multiplies_counts_but_not_what_one_node_has(workload_file: Path) -> None:
    (workload,) = read_workloads(workload_file, scale=0.05)
    nodes, sets, driver = workload.steps
    assert (nodes["count"], sets["count"], driver["maxClaimsPerNode"]) == (5, 1, 10)


def test_an_unknown_param_is_named(workload_file: Path) -> None:
    workload_file.write_text(FILE.replace("$sets", "$bets"))
    with pytest.raises(WorkloadFileError, match="'bets'"):
        list(read_workloads(workload_file))


@pytest.mark.parametrize(
    ("labels", "name", "want"),
    [
        ("", "", True),
        ("short", "", True),
        ("performance,short", "Fam", True),
        ("performance,-short", "", False),
        ("integration-test", "", False),
        ("", "^Family/Big", False),
    ],
)
def test_workloads_are_chosen_by_labels_and_name(
    workload_file: Path, labels: str, name: str, want: bool
) -> None:
    (workload,) = read_workloads(workload_file)
    assert wanted(workload, labels, name) is want


def test_templates_compute_from_index_and_count(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("port: 8{{ Mod .Index 12 }}\nskew: {{.Count}}\nname: c-{{DivideInt .Index 5}}")
    assert Template(file).document(14, 20) == {"port": 82, "skew": 20, "name": "c-2"}


def test_an_unknown_function_names_its_file(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("port: {{ Sqrt .Index }}")
    with pytest.raises(TemplateError, match=r"pod.yaml: .*Sqrt"):
        Template(file).document(0, 1)


@pytest.fixture
def workloads() -> Path:
    """The reference's own files, which are not in this repository."""
    folder = os.environ.get("KUBESCHED_WORKLOADS")
    if not folder:
        pytest.skip("needs kubernetes' scheduler_perf files; name their folder KUBESCHED_WORKLOADS")
    return Path(folder)


def all_workloads(workloads: Path) -> list[Workload]:
    files = find_files(workloads)
    return [workload for file in files for workload in read_workloads(file)]


def test_every_step_of_every_file_is_supported(workloads: Path) -> None:
    found = all_workloads(workloads)
    assert len(found) > 200
    assert len({workload.family for workload in found}) == 49
    used = {step["opcode"] for workload in found for step in workload.steps}
    assert used <= OPCODES.keys()


def test_a_workload_is_skipped_for_the_plugins_it_is_about(workloads: Path) -> None:
    by_name = {workload.full_name: workload for workload in all_workloads(workloads)}
    needs: Mapping[str, list[str]] = {
        "SchedulingBasic/5Nodes": [],
        "SchedulingSecrets/5Nodes": [],
        "PreemptionBasic/5Nodes": ["DefaultPreemption"],
        "SchedulingWithResourceClaim/fast": ["DynamicResources"],
        "PublishResourceSlices/500nodes": ["DynamicResources"],
        "SchedulingWithExtendedResource/fast": [],
        "SchedulingCSIPVs/5Nodes": [
            "NodeVolumeLimits",
            "VolumeBinding",
            "VolumeRestrictions",
            "VolumeZone",
        ],
    }
    for name, plugins in needs.items():
        assert missing_features(by_name[name], ()) == plugins, name
        assert missing_features(by_name[name], plugins) == []


def test_nodes_get_a_hostname_and_labels_in_turn(tmp_path: Path) -> None:
    step = {"labelNodePrepareStrategy": {"labelKey": "zone", "labelValues": ["a", "b"]}}
    documents = node_documents(step, tmp_path, 3, first_number=7)
    assert [document["metadata"]["labels"] for document in documents] == [
        {"kubernetes.io/hostname": "scheduler-perf-00007", "zone": "a"},
        {"kubernetes.io/hostname": "scheduler-perf-00008", "zone": "b"},
        {"kubernetes.io/hostname": "scheduler-perf-00009", "zone": "a"},
    ]


RUNS = [
    "SchedulingBasic/5Nodes$",
    "SchedulingDaemonset/5Nodes$",
    "SchedulingWhileGated/1Node_10GatedPods$",
    "SchedulingDeletedPodsWithFinalizers/10Node_100DeletingPods$",
    "SchedulingRequiredPodAffinityWithNSSelector/10Nodes$",
    "SchedulingWithNodeInclusionPolicy/5Nodes$",
    "DefaultTopologySpreading/5Nodes$",
    "EventHandlingPodAdd/10Pods$",
]


def run(name: str, workloads: Path, *options: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(
        main,
        ["--name", name, "--labels", "integration-test", "--timeout", "30", *options],
        catch_exceptions=False,
        env={"KUBESCHED_WORKLOADS": str(workloads)},
    )
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("name", RUNS)
def test_a_small_workload_schedules_all_that_it_measures(name: str, workloads: Path) -> None:
    (line,) = run(name, workloads)
    assert line["status"] == "ok", line
    assert line["measured_pods"] >= 4
    assert line["attempts"] >= line["measured_pods"]
    assert line["pods_per_s"] > 0


def test_a_locked_gate_is_reported(workloads: Path) -> None:
    (line,) = run("SchedulingBasic/5Nodes$", workloads)
    assert line["ignored_gates"] == {"SchedulerQueueingHints": False}
    (line,) = run("SchedulingBasic/5Nodes_QueueingHintsEnabled$", workloads)
    assert "ignored_gates" not in line


def test_unsupported_workloads_are_reported(
    workloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "IN_TREE_PLUGINS", {"PrioritySort": None})
    (line,) = run("PreemptionBasic/5Nodes$", workloads)
    assert (line["status"], line["missing"]) == ("skipped", ["DefaultPreemption"])


def claim_cluster() -> Cluster:
    cluster = Cluster(Store(), ManualClock())
    for name in ("dra-0", "dra-1", "plain"):
        cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    return cluster


def test_a_pod_with_a_priority_gets_a_class_of_it() -> None:
    cluster = claim_cluster()
    spec = {"priority": 10, "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": spec}
    stored = [cluster.create(pod, "default")["spec"] for _ in range(2)]
    assert [(each["priority"], each["priorityClassName"]) for each in stored] == [
        (10, "priority-10")
    ] * 2


SPEC = {"devices": {"requests": [{"name": "req-0", "exactly": {"deviceClassName": "test-class"}}]}}


def test_a_driver_publishes_its_devices_on_the_nodes_that_match() -> None:
    cluster = claim_cluster()
    slices = [cluster.create(each) for each in DeviceDriver("d.io", "dra-*", 2).slices(cluster)]
    assert [each["spec"]["nodeName"] for each in slices] == ["dra-0", "dra-1"]
    assert [device["name"] for device in slices[0]["spec"]["devices"]] == [
        "instance-00",
        "instance-01",
    ]


def test_claims_are_allocated_distinct_devices() -> None:
    cluster = claim_cluster()
    for number in range(3):
        cluster.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": f"claim-{number}"},
                "spec": SPEC,
            },
            "default",
        )
    allocate_claims(cluster, [DeviceDriver("d.io", "dra-*", 2)], "default")
    claims = cluster.records("resource.k8s.io/v1", "ResourceClaim", "default")
    results = [claim.data["status"]["allocation"]["devices"]["results"][0] for claim in claims]
    assert [(result["pool"], result["device"]) for result in results] == [
        ("dra-0", "instance-00"),
        ("dra-0", "instance-01"),
        ("dra-1", "instance-00"),
    ]


def test_claims_of_slices_that_no_driver_made_are_allocated_by_search() -> None:
    cluster = claim_cluster()
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    device_class = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceClass"}
    cluster.create({**device_class, "metadata": {"name": "test-class"}, "spec": {}})
    for name in ("c", "d"):
        cluster.create({**claim, "metadata": {"name": name}, "spec": SPEC}, "default")
    with pytest.raises(ValueError, match="no device is left for claim c"):
        allocate_claims(cluster, [], "default")
    for each in DeviceDriver("d.io", "dra-*", 1).slices(cluster):
        cluster.create(each)
    allocate_claims(cluster, [], "default")
    claims = cluster.records("resource.k8s.io/v1", "ResourceClaim", "default")
    results = [claim.data["status"]["allocation"]["devices"]["results"][0] for claim in claims]
    assert [result["pool"] for result in results] == ["dra-0", "dra-1"]


def test_a_claim_by_template_is_created_and_named_in_the_pods_status() -> None:
    cluster = claim_cluster()
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    cluster.create({**template, "metadata": {"name": "t"}, "spec": {"spec": SPEC}}, "default")
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "res"}]}}
    spec = {
        "containers": [container],
        "resourceClaims": [{"name": "res", "resourceClaimTemplateName": "t"}],
    }
    pod = cluster.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}, "default"
    )
    create_claims(cluster, pod)
    (claim,) = cluster.records("resource.k8s.io/v1", "ResourceClaim", "default")
    (stored,) = cluster.records("v1", "Pod", "default")
    assert claim.data["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    assert stored.data["status"]["resourceClaimStatuses"] == [
        {"name": "res", "resourceClaimName": claim.data["metadata"]["name"]}
    ]
