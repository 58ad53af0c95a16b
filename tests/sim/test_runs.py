"""Whole runs: they are deterministic, measure the cluster, and do not read the environment."""

from __future__ import annotations

import asyncio
import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kubesched.api import Job, Pod, ReplicaSet, ResourceClaim
from kubesched.api.volume import PersistentVolume, PersistentVolumeClaim
from kubesched.cluster import embedded_cluster
from kubesched.cluster.apiserver import Store
from kubesched.errors import KubeschedError
from kubesched.sim import pod_arrivals
from kubesched.sim import run as run_scenario
from kubesched.sim.sampling import Series
from kubesched.sim.scenario import Scenario
from kubesched.sim.simulation import simulate
from kubesched.sim.sweep import verify_repeats
from tests.sim.scenarios import PACKED, scenario


def run(of: Scenario, seed: int = 1, configuration: int = 0):
    return simulate(of, of.configurations[configuration], seed)[0]


def test_a_run_repeats_to_the_last_digit() -> None:
    first, again = run(scenario()), run(scenario())
    skipped = ("seconds", "decisions_per_second")
    for name in first.__struct_fields__:
        if name not in skipped:
            assert getattr(first, name) == getattr(again, name), name


def test_a_scenario_runs_where_an_event_loop_runs() -> None:
    """The kernel of a notebook runs an event loop."""
    short = scenario(duration="10m")

    async def main() -> str:
        return run_scenario(short, seeds=(1,)).results[0].digest

    assert asyncio.run(main()) == run_scenario(short, seeds=(1,)).results[0].digest


def test_runs_do_not_depend_on_those_before_them() -> None:
    alone = run(scenario(), seed=5).digest
    for seed in (3, 1, 4):
        run(scenario(duration="20m"), seed)
    assert run(scenario(), seed=5).digest == alone


def test_seed_and_configuration_make_another_run() -> None:
    packed = scenario(configurations=[{"name": "a"}, {"name": "b", "config": PACKED}])
    digests = {run(packed, seed, place).digest for seed in (1, 2) for place in (0, 1)}
    assert len(digests) == 4


def test_pods_are_created_run_and_are_deleted() -> None:
    result = run(scenario())
    counts = result.counts
    assert counts["created"] == pytest.approx(40, abs=20)
    assert counts["bound"] == counts["created"]
    assert 0 < counts["finished"] <= counts["bound"]
    assert result.time_to_run["tasks"]["p50"] == pytest.approx(0.1, rel=0.01)
    assert result.series["time"] == [600.0, 1200.0, 1800.0, 2400.0, 3000.0, 3600.0]
    assert 0 < result.averages["cpu allocated"] < 1


def test_more_pods_than_the_watch_log_holds_are_bound_at_once() -> None:
    many = {"name": "many", "arrivals": {"at": ["1m"]}, "replicas": 200, "cpu": "1m"}
    with (
        mock.patch.object(pod_arrivals, "_AT_ONCE", 20),
        mock.patch.object(embedded_cluster, "Store", partial(Store, history=30)),
    ):
        result = run(scenario(workloads=[many]))
    waited = result.time_to_bind["all"]
    assert (waited["count"], round(waited["max"], 3)) == (200, 0)


def test_amounts_equal_those_computed_by_hand() -> None:
    """One node of four cores: a pod of three cores runs all the time, a second one never fits."""
    result = run(
        scenario(
            cluster={
                "nodes": [
                    {"name": "n", "count": 1, "cpu": 4, "memory": "8Gi", "price": 2},
                    {"name": "m", "count": 1, "cpu": 1, "memory": "8Gi"},
                ]
            },
            workloads=[
                {"name": "big", "replicas": 2, "cpu": 3, "memory": "1Gi"},
            ],
        )
    )
    assert result.counts["bound"] == 1
    assert result.pending == {"Insufficient cpu": 1}
    last = {name: values[-1] for name, values in result.series.items()}
    assert last["pending"] == last["pending: Insufficient cpu"] == 1
    assert last["cpu allocated"] == pytest.approx(3 / 5)
    assert last["n: cpu allocated"] == pytest.approx(3 / 4)
    # No pod of the workload fits into the rest: one core on each of the nodes.
    assert last["cpu stranded"] == last["cpu fragmented"] == pytest.approx(2 / 5)
    assert last["memory stranded"] == pytest.approx(15 / 16)
    assert last["cost"] == pytest.approx(2)


def test_deployments_and_jobs() -> None:
    workloads = [
        {"name": "web", "kind": "Deployment", "replicas": 2, "cpu": "100m"},
        {"name": "batch", "kind": "Job", "replicas": 3, "cpu": "100m", "duration": "5m"},
    ]
    result = run(scenario(workloads=workloads))
    assert result.time_to_bind["web"]["count"] == 2
    assert result.time_to_bind["batch"]["count"] == 3
    assert result.counts["finished"] == 3


def test_a_drained_node_is_empty_and_comes_back() -> None:
    drained = scenario(
        workloads=[{"name": "web", "kind": "Deployment", "replicas": 6, "cpu": "500m"}],
        events=[{"drain": {"nodes": ["general-0"]}, "at": "20m", "for": "10m"}],
    )
    result = run(drained)
    assert result.counts["evicted"] == 2
    assert result.counts["bound"] == 8
    assert not result.pending


def test_pods_of_a_zone_that_fails_go_elsewhere_and_the_zone_comes_back() -> None:
    """A node is unreachable after 50 s, and pods tolerate that for five minutes."""
    failing = scenario(
        workloads=[{"name": "web", "kind": "Deployment", "replicas": 6, "cpu": "500m"}],
        events=[{"fail": {"zone": "a"}, "at": "10m", "for": "30m"}],
    )
    result = run(failing)
    assert result.counts["evicted"] == 2
    assert result.counts["bound"] == 8
    assert result.time_to_bind["web"]["max"] < 1
    shares = result.series["cpu zone imbalance"]
    assert shares[0] == 0
    assert shares[-1] > 0.3  # pods are not moved back


def test_failures_at_a_rate_hit_one_node_at_a_time() -> None:
    failing = scenario(
        duration="10h",
        workloads=[],
        events=[{"fail": {"group": "general"}, "rate": "2/h", "for": "1m"}],
    )
    first = simulate(failing, failing.configurations[0], 1, window=(0, 10**15))[1]
    decisions = first.observer.decisions
    # The nodes are not deleted, only stopped for some time.
    assert {what for _, what, _, _ in decisions} == {"node", "fails", "is back"}
    times = [time_ns for time_ns, what, _, _ in decisions if what == "fails"]
    assert len(times) == len(set(times)) > 10


def test_finished_jobs_leave_nothing_behind() -> None:
    jobs = [{"name": "b", "kind": "Job", "arrivals": {"every": "5m"}, "cpu": "1", "duration": "1m"}]
    planned = scenario(workloads=jobs)
    _, simulation = simulate(planned, planned.configurations[0], 1)
    left = {
        resource: len(simulation.store.list(simulation.store.catalog.by_type(resource)).records)
        for resource in (Pod, Job)
    }
    assert left == {Pod: 0, Job: 0}


def test_nodes_are_added_and_removed() -> None:
    changed = scenario(
        events=[
            {"add": {"group": "general", "count": 2}, "at": "15m"},
            {"remove": {"nodes": ["general-0"]}, "at": "35m"},
        ]
    )
    assert run(changed).series["nodes"] == [3, 5, 5, 4, 4, 4]


def test_the_autoscaler_brings_nodes_while_pods_wait_and_takes_idle_ones() -> None:
    scaled = scenario(
        duration="2h",
        cluster={"nodes": [{"name": "general", "count": 1, "cpu": 4, "memory": "8Gi"}]},
        workloads=[{"name": "w", "replicas": 10, "cpu": 1, "duration": "20m"}],
        autoscaler=[{"group": "general", "min": 1, "max": 3, "delay": "2m", "idle": "10m"}],
    )
    result = run(scaled)
    assert max(result.series["nodes"]) == 3
    assert result.series["nodes"][-1] == 1
    assert result.counts["finished"] == 10
    assert result.time_to_bind["w"]["max"] == pytest.approx(130, abs=15)


@pytest.mark.parametrize(
    ("wants", "expected"),
    [
        ({"tolerations": ["spot"]}, 3),
        ({}, 1),  # a node with a taint that the pods do not tolerate would not help them
        ({"tolerations": ["spot"], "nodeSelector": {"disk": "fast"}}, 3),
        ({"tolerations": ["spot"], "nodeSelector": {"disk": "slow"}}, 1),
        ({"tolerations": ["spot"], "nodeSelector": {"topology.kubernetes.io/zone": "b"}}, 3),
        ({"tolerations": ["spot"], "nodeSelector": {"topology.kubernetes.io/zone": "c"}}, 1),
    ],
)
def test_the_autoscaler_orders_only_nodes_that_would_take_the_pods_that_wait(
    wants: dict[str, Any], expected: int
) -> None:
    node = {
        "name": "spot",
        "count": 1,
        "cpu": 4,
        "memory": "8Gi",
        "labels": {"disk": "fast"},
        "taints": [{"key": "spot", "effect": "NoSchedule"}],
        "zones": ["a", "b"],
    }
    scaled = scenario(
        duration="30m",
        cluster={"nodes": [node]},
        workloads=[{"name": "w", "replicas": 10, "cpu": 1, **wants}],
        autoscaler=[{"group": "spot", "min": 1, "max": 3, "delay": "2m"}],
    )
    assert max(run(scaled).series["nodes"]) == expected


def test_the_more_important_pod_preempts_and_priorities_are_distinguished() -> None:
    full = scenario(
        cluster={"nodes": [{"name": "n", "count": 1, "cpu": 4, "memory": "8Gi"}]},
        workloads=[
            {"name": "low", "cpu": 4},
            {"name": "high", "cpu": 4, "priority": 1000, "arrivals": {"at": ["10m"]}},
        ],
    )
    result = run(full)
    assert result.counts["preempted"] == 1
    assert result.by_priority["bind"]["1000"]["count"] == 1
    assert result.time_to_bind["high"]["max"] < 60


def test_every_change_is_stored_on_request() -> None:
    result = run(scenario(changes=True))
    changes = result.changes
    assert len(changes["time"]) > result.counts["created"]
    assert changes["time"] == sorted(changes["time"])
    assert not run(scenario()).changes
    # A sample has the same values as the last change before it.
    for name in ("nodes", "pending", "bound", "cpu allocated", "cpu used", "memory allocated"):
        for step, value in zip(result.series["time"], result.series[name], strict=True):
            last = max(place for place, time in enumerate(changes["time"]) if time <= step)
            assert changes[name][last] == value, (name, step)


def test_usage_and_allocatable_are_removed_with_the_node() -> None:
    """Two nodes of four cores, a pod of two on each; one node is removed."""
    result = run(
        scenario(
            cluster={"nodes": [{"name": "n", "count": 2, "cpu": 4, "memory": "8Gi"}]},
            workloads=[{"name": "w", "replicas": 2, "cpu": 3, "memory": "1Gi"}],
            events=[{"remove": {"nodes": ["n-0"]}, "at": "30m"}],
            changes=True,
        )
    )
    assert [values[-1] for values in (result.changes["nodes"], result.changes["cpu used"])] == [
        1,
        0.75,
    ]
    assert result.changes["cpu allocated"][-1] == result.series["cpu allocated"][-1] == 0.75


RULES = """
rules:
- match: {labels: {app: slow}}
  behavior: {startDelay: 30s}
- match: {labels: {app: broken}}
  behavior: {runDuration: 1m, exitCode: 3}
"""


def test_pods_behave_by_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    workloads = [
        {"name": name, "cpu": "100m", "labels": {"app": name}} for name in ("slow", "broken", "web")
    ]
    ruled = scenario(tmp_path, workloads=workloads, behaviour={"rules": "rules.yaml"})
    result = run(ruled)
    assert result.time_to_run["slow"]["max"] == pytest.approx(30)
    assert result.time_to_run["web"]["max"] == pytest.approx(0.1)
    assert result.counts["failed"] == 1
    assert ruled.hash != scenario(tmp_path, workloads=workloads).hash


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    lines = [
        {"format": "kubesched-trace/1"},
        {"time": 60, "add": {"metadata": {"name": "a"}, "spec": {"containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}},
        {"time": 100, "end": "default/a", "ran": 30.5},
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, lines))
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    replayed = scenario(tmp_path, workloads=[], traces=[{"file": "t.jsonl.gz"}], changes=True)
    result = run(replayed)
    assert result.counts["finished"] == 1
    times = result.changes["time"]
    assert times[0] == 60
    assert times[-1] == pytest.approx(60.1 + 30.5, abs=0.2)


def test_an_openb_trace_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos,creation_time,deletion_time,scheduled_time\n"
        "p1,1000,512,0,0,LS,100,400,110\np2,500,512,1,300,BE,160,1000,160\n"
    )
    result = run(scenario(tmp_path, workloads=[], traces=[{"file": "pods.csv"}]))
    assert result.counts["created"] == 2
    assert result.counts["finished"] == 1
    assert list(result.pending.values()) == [1]  # no node has GPUs


def test_an_openb_cluster(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\n"
    )
    gpus = [{"name": "w", "replicas": 3, "resources": {"alibabacloud.com/gpu-milli": 900}}]
    result = run(scenario(tmp_path, cluster={"files": ["nodes.csv"]}, workloads=gpus))
    assert result.counts["bound"] == 2
    assert result.pending == {"Insufficient alibabacloud.com/gpu-milli": 1}


DUMP = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1, uid: a}
  status: {allocatable: {cpu: 4, pods: 9}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: kept
    uid: b
    labels: {app: x}
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: c, controller: true}]
  spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
  status: {phase: Running}
- apiVersion: v1
  kind: Pod
  metadata:
    name: orphan
    uid: d
    ownerReferences: [{apiVersion: example.com/v1, kind: Train, name: t, uid: e, controller: true}]
  spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
  status: {phase: Running}
- apiVersion: apps/v1
  kind: ReplicaSet
  metadata: {name: r, uid: c}
  spec:
    replicas: 1
    selector: {matchLabels: {app: x}}
    template:
      metadata: {labels: {app: x}}
      spec: {containers: [{name: c, image: i}]}
"""


def test_a_cluster_from_a_dump_continues_in_the_same_state(tmp_path: Path) -> None:
    """Owned objects keep their owners, and the garbage collector deletes none of them."""
    (tmp_path / "dump.yaml").write_text(DUMP)
    planned = scenario(tmp_path, cluster={"files": ["dump.yaml"]}, workloads=[])
    result, simulation = simulate(planned, planned.configurations[0], 1)
    pods = simulation.store.list(simulation.store.catalog.by_type(Pod)).records
    assert sorted(each.typed.metadata.name for each in pods) == ["kept", "orphan"]
    assert result.averages["cpu allocated"] == 0.5
    assert "deleted" not in result.counts


VOLUMES = """
kind: List
apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata: {name: 'n'}
  status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}, capacity: {cpu: 2, memory: 4Gi, pods: 10}}
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: v, uid: volume-uid}
  spec:
    capacity: {storage: 1Gi}
    accessModes: [ReadWriteOnce]
    persistentVolumeReclaimPolicy: Delete
    hostPath: {path: /data}
    storageClassName: ""
    claimRef: {kind: PersistentVolumeClaim, namespace: default, name: data, uid: claim-uid}
  status: {phase: Bound}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata:
    name: data
    namespace: default
    uid: claim-uid
    annotations: {pv.kubernetes.io/bind-completed: "yes"}
  spec:
    accessModes: [ReadWriteOnce]
    resources: {requests: {storage: 1Gi}}
    storageClassName: ""
    volumeName: v
  status: {phase: Bound, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}}
"""


def test_volumes_of_a_dump_stay_bound_to_their_claims(tmp_path: Path) -> None:
    """A volume stays bound, although its claim has a new uid in the copy."""
    (tmp_path / "dump.yaml").write_text(VOLUMES)
    planned = scenario(tmp_path, cluster={"files": ["dump.yaml"]}, workloads=[])
    _, simulation = simulate(planned, planned.configurations[0], 1)
    store = simulation.store
    (volume,) = store.list(store.catalog.by_type(PersistentVolume)).records
    (claim,) = store.list(store.catalog.by_type(PersistentVolumeClaim)).records
    assert volume.typed.spec.claim_ref.uid == claim.typed.metadata.uid != "claim-uid"
    assert volume.typed.status.phase == claim.typed.status.phase == "Bound"


DEVICES = """
kind: List
apiVersion: v1
items:
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: gpu, namespace: default, uid: claim-uid}
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpus}}]}}
  status:
    allocation:
      devices: {results: [{request: gpu, driver: example.com, pool: 'n', device: gpu-0}]}
    reservedFor:
    - {resource: pods, name: train, uid: pod-uid}
    - {resource: pods, name: gone, uid: gone-uid}
- apiVersion: v1
  kind: Pod
  metadata: {name: train, namespace: default, uid: pod-uid}
  spec:
    nodeName: 'n'
    containers: [{name: main, image: i, resources: {claims: [{name: gpu}]}}]
    resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  status: {phase: Running}
- apiVersion: v1
  kind: Node
  metadata: {name: 'n'}
  status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}, capacity: {cpu: 2, memory: 4Gi, pods: 10}}
"""


def test_claims_for_devices_of_a_dump_stay_with_their_pods(tmp_path: Path) -> None:
    """A claim stays reserved for its pod, although the pod has a new uid in the copy."""
    (tmp_path / "dump.yaml").write_text(DEVICES)
    planned = scenario(tmp_path, cluster={"files": ["dump.yaml"]}, workloads=[])
    _, simulation = simulate(planned, planned.configurations[0], 1)
    store = simulation.store
    (claim,) = store.list(store.catalog.by_type(ResourceClaim)).records
    (pod,) = store.list(store.catalog.by_type(Pod)).records
    (user,) = claim.typed.status.reserved_for
    assert (user.name, user.uid) == ("train", pod.typed.metadata.uid)
    assert user.uid != "pod-uid"
    assert claim.typed.status.allocation.devices.results[0].device == "gpu-0"


TWICE = """
kind: List
apiVersion: v1
items:
- &set
  apiVersion: apps/v1
  kind: ReplicaSet
  metadata: {name: web, namespace: default, uid: set-uid}
  spec:
    replicas: 1
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: main, image: i}]}
- *set
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-1
    namespace: default
    uid: pod-uid
    labels: {app: web}
    ownerReferences:
    - {apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: set-uid, controller: true}
  spec: {nodeName: 'n', containers: [{name: main, image: i}]}
  status: {phase: Running}
- apiVersion: v1
  kind: Node
  metadata: {name: 'n'}
  status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}, capacity: {cpu: 2, memory: 4Gi, pods: 10}}
"""


def test_owners_that_occur_twice_retain_their_dependents(tmp_path: Path) -> None:
    """Dumps may overlap, such as `kubectl get all` and one of its kinds."""
    (tmp_path / "dump.yaml").write_text(TWICE)
    planned = scenario(tmp_path, cluster={"files": ["dump.yaml"]}, workloads=[])
    _, simulation = simulate(planned, planned.configurations[0], 1)
    store = simulation.store
    (owner,) = store.list(store.catalog.by_type(ReplicaSet)).records
    (pod,) = store.list(store.catalog.by_type(Pod)).records
    assert pod.typed.metadata.name == "web-1"
    assert pod.typed.metadata.owner_references[0].uid == owner.typed.metadata.uid


def test_a_column_added_later_is_zero_for_earlier_samples() -> None:
    series = Series()
    series.add({"time": 1.0, "a": 5}, "x")
    series.add({"time": 2.0, "b": 7}, "y")
    assert series.columns == {"time": [1.0, 2.0], "a": [5, 0.0], "b": [0.0, 7]}


# -- isolation from the environment ----------------------------------------------------------

PLUGIN = """
import {imports}
from kubesched.framework import Plugin

class Odd(Plugin):
    name = "Odd"
    def score(self, state, pod, node):
        return {score}
"""
PLANTED = {
    "the clock": ("time", "time.perf_counter_ns() // 1000 % 101"),
    "the order of a hash": ("time", "hash(pod.metadata.name + node.name) % 101"),
}


def with_plugin(folder: Path, imports: str, score: str) -> Scenario:
    (folder / "odd.py").write_text(PLUGIN.format(imports=imports, score=score))
    profile = {
        "plugins": {
            "multiPoint": {"enabled": [{"name": "Odd"}]},
            "score": {"enabled": [{"name": "Odd"}], "disabled": [{"name": "*"}]},
        }
    }
    odd = {"name": "odd", "plugins": ["odd.py"], "config": {"profiles": [profile]}}
    return scenario(folder, configurations=[odd])


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_runs_that_are_not_reproducible_are_detected(
    tmp_path: Path, planted: tuple[str, str]
) -> None:
    first, again = verify_repeats(with_plugin(tmp_path, *planted))
    assert first != again


@pytest.mark.slow
def test_a_run_is_the_same_in_processes_with_other_hashes() -> None:
    first, again = verify_repeats(scenario())
    assert first == again == run(scenario(), seed=0).digest


def test_a_plugin_cannot_start_threads_in_virtual_time(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "import asyncio\nfrom kubesched.framework import SUCCESS, Plugin\n"
        "class Odd(Plugin):\n"
        "    name = 'Odd'\n"
        "    async def pre_bind(self, state, pod, node_name):\n"
        "        await asyncio.to_thread(lambda: None)\n"
        "        return SUCCESS\n"
    )
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Odd"}]}}}
    odd = {"name": "odd", "plugins": ["odd.py"], "config": {"profiles": [profile]}}
    result = run(scenario(tmp_path, configurations=[odd]))
    assert not result.counts.get("bound")
    assert any("thread" in reason for reason in result.reasons)


def test_an_object_that_is_refused_is_one_line(tmp_path: Path) -> None:
    added = {"metadata": {"name": "W_"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    lines = [{"format": "kubesched-trace/1"}, {"time": 60, "add": added}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(KubeschedError, match=r"^Pod W_ is refused: .*metadata.name: Invalid value"):
        run(scenario(tmp_path, traces=[{"file": "t.jsonl"}]))
