"""The optional plugins are installed, and their configurations, examples and definitions work."""

from __future__ import annotations

import asyncio
import importlib
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubesched.api import Pod
from kubesched.cli.main import cli
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.manifests import load_manifests
from kubesched.contrib.network_aware import NetworkOverhead, TopologicalSort
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import CycleState, NodeInfo, Plugin, Status
from kubesched.scheduler.config.load import load_configuration
from kubesched.scheduler.options import scheduler_configuration
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "contrib"
CRDS = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))
NAMES = [
    "CapacityScheduling",
    "Coscheduling",
    "LoadVariationRiskBalancing",
    "LowRiskOverCommitment",
    "NodeMetadata",
    "NetworkOverhead",
    "NodeResourceTopologyMatch",
    "NodeResourcesAllocatable",
    "PodState",
    "PreemptionToleration",
    "QOSSort",
    "TargetLoadPacking",
    "TopologicalSort",
]


def test_the_plugins_are_installed_under_their_names() -> None:
    assert sorted(_entry_points()) == sorted(NAMES)
    for name, where in _entry_points().items():
        module, _, attribute = where.partition(":")
        assert getattr(importlib.import_module(module), attribute).name == name
    assert "Coscheduling" in out_of_tree_plugins()


def test_a_user_plugin_replaces_a_contrib_plugin_of_the_same_name() -> None:
    class Own(Plugin):
        name = "Coscheduling"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            raise NotImplementedError

    assert out_of_tree_plugins(given={"Coscheduling": Own})["Coscheduling"] is Own


@pytest.mark.parametrize("name", NAMES)
def test_every_plugin_has_a_page(name: str) -> None:
    pages = "".join(path.read_text() for path in (ROOT / "docs" / "contrib").glob("*.md"))
    assert f"[{name}](" in (ROOT / "docs" / "contrib" / "index.md").read_text()
    assert re.search(rf"^(#+ .*|- \*\*){name}", pages, re.MULTILINE)


# Every argument of the public project's v1 types, in the form of its chart: multiPoint, and the
# in-tree queueSort plugin disabled.
EVERY_ARGUMENT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: scheduler-plugins-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: Coscheduling
      - name: CapacityScheduling
      - name: NodeResourceTopologyMatch
      - name: NodeResourcesAllocatable
      - name: NetworkOverhead
      - name: NodeMetadata
      - name: PodState
      - name: TargetLoadPacking
      - name: LoadVariationRiskBalancing
      - name: LowRiskOverCommitment
      disabled:
      - name: PrioritySort
      - name: NodeResourcesLeastAllocated
    postFilter:
      enabled: [{name: PreemptionToleration}]
      disabled: [{name: "*"}]
  pluginConfig:
  - name: Coscheduling
    args: {permitWaitingTimeSeconds: 10, podGroupBackoffSeconds: 3, podGroupRejectPercentage: 20}
  - name: NodeResourcesAllocatable
    args: {mode: Least, resources: [{name: cpu, weight: 1000000}, {name: memory, weight: 1}]}
  - name: NodeResourceTopologyMatch
    args:
      scoringStrategy: {type: LeastNUMANodes, resources: [{name: cpu, weight: 2}]}
      cacheResyncPeriodSeconds: 5
      discardReservedNodes: false
      cache: {foreignPodsDetect: None, resyncMethod: All, informerMode: Shared, resyncScope: OnlyResources}
      preemptionMode: Disabled
      missingTopologyDataPolicy: Allow
  - name: PreemptionToleration
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: PreemptionTolerationArgs
      minCandidateNodesPercentage: 10
      minCandidateNodesAbsolute: 100
  - name: TargetLoadPacking
    args:
      defaultRequests: {cpu: 2000m}
      defaultRequestsMultiplier: "1.8"
      targetUtilization: 60
      watcherAddress: http://load-watcher:2020
  - name: LoadVariationRiskBalancing
    args:
      safeVarianceMargin: 1.5
      safeVarianceSensitivity: 2
      metricProvider: {type: Prometheus, address: "http://prometheus:9090", token: t, insecureSkipVerify: false}
  - name: LowRiskOverCommitment
    args:
      smoothingWindowSize: 5
      riskLimitWeights: {cpu: 0.5, memory: 0.7}
      metricProvider: {type: KubernetesMetricsServer}
  - name: NodeMetadata
    args:
      metadataKey: example.com/since
      metadataSource: Annotation
      metadataType: Timestamp
      scoringStrategy: Oldest
      timestampFormat: "2006-01-02"
      defaultValue: "2026-01-01"
  - name: NetworkOverhead
    args: {namespaces: [shop, default], weightsName: NetperfCosts, networkTopologyName: costs}
"""  # noqa: E501


def test_configurations_of_the_public_project_load() -> None:
    registry = {
        name: getattr(importlib.import_module(module), attribute)
        for name, where in _entry_points().items()
        for module, _, attribute in [where.partition(":")]
    }
    known = {name: each.args_type for name, each in registry.items() if each.args_type}
    loaded = load_configuration(EVERY_ARGUMENT, known_args=known)
    completed = scheduler_configuration(configuration=loaded, out_of_tree_registry=registry)
    enabled = completed.enabled_plugins()
    assert set(NAMES) - {"QOSSort", "TopologicalSort"} <= enabled
    (profile,) = completed.profiles
    assert profile.args_of("Coscheduling").permit_waiting_time_seconds == 10
    assert profile.args_of("NodeResourceTopologyMatch").cache.foreign_pods_detect == "None"
    assert profile.args_of("LowRiskOverCommitment").risk_limit_weights["memory"] == 0.7
    assert profile.args_of("NetworkOverhead").namespaces == ("shop", "default")


# The form of the public project's manifest for the two network-aware plugins.
NETWORK_AWARE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: network-aware-scheduler
  plugins:
    multiPoint:
      enabled: [{name: NetworkOverhead, weight: 5}]
      disabled: [{name: NodeResourcesFit}]
    queueSort:
      enabled: [{name: TopologicalSort}]
      disabled: [{name: "*"}]
  pluginConfig:
  - name: TopologicalSort
    args: {namespaces: [default]}
  - name: NetworkOverhead
    args: {namespaces: [default], weightsName: UserDefined, networkTopologyName: net-topology-test}
"""


def test_the_network_aware_configuration_loads() -> None:
    registry = {each.name: each for each in (NetworkOverhead, TopologicalSort)}
    known = {name: each.args_type for name, each in registry.items()}
    loaded = load_configuration(NETWORK_AWARE, known_args=known)
    completed = scheduler_configuration(configuration=loaded, out_of_tree_registry=registry)
    assert set(registry) <= completed.enabled_plugins()
    assert "NodeResourcesFit" not in completed.enabled_plugins()


def _entry_points() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    offered: dict[str, str] = project["entry-points"]["kubesched.plugins"]
    return offered


def _app_of(pod: Pod) -> str:
    return pod.metadata.labels.get("app", "")


def placed(example: str, key: Callable[[Pod], str] = _app_of) -> dict[str, int]:
    """Run an example with its configuration; return the number of placed pods by a key."""

    async def steps() -> dict[str, int]:
        text = (EXAMPLES / f"{example}_config.yaml").read_text()
        plugins = out_of_tree_plugins()
        live = LiveCluster(
            EmbeddedCluster(current_clock(), derive(0, "store"), heartbeats=False),
            configuration=load_configuration(text, known_args=plugins.known_args()),
            out_of_tree_registry=plugins,
        )
        await live.apply(load_manifests([*CRDS, EXAMPLES / f"{example}.yaml"]))
        async with live.running():
            await asyncio.sleep(90)
            counts: dict[str, int] = {}
            for pod in (await live.pods()).values():
                counts[key(pod)] = counts.get(key(pod), 0) + bool(pod.spec.node_name)
            return counts

    return run(steps)


def test_the_example_of_coscheduling() -> None:
    """Either group fits, and not both."""
    counts = placed("coscheduling")
    assert counts in ({"training": 3, "larger": 0}, {"training": 0, "larger": 4})


def test_the_example_of_capacity_scheduling() -> None:
    assert placed("capacity") == {"notebooks": 4, "shop": 4}


def test_the_example_of_numa_nodes() -> None:
    """Worker-2 takes two pods of 3 CPUs; on worker-1 they could not be aligned."""
    assert placed("numa") == {"inference": 2, "web": 1}


def test_the_example_of_an_application_near_its_database() -> None:
    """The database is in us-east-1, where 8 CPUs are; all pods fit there."""
    assert placed("network", lambda pod: pod.spec.node_name.partition("-")[0]) == {"east": 7}


def explained(tmp_path: Path, config: str, documents: str, pod: str) -> str:
    (tmp_path / "cluster.yaml").write_text(documents)
    command = ["explain", "pod", pod, "-f", str(tmp_path / "cluster.yaml")]
    command += ["--config", str(EXAMPLES / config)]
    result = CliRunner().invoke(cli, command)
    return " ".join(result.output.split())


NODE: Any = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {allocatable: {cpu: "4", memory: 16Gi, pods: "110"}}
---
"""


def test_explain_reports_the_missing_resources_of_a_group(tmp_path: Path) -> None:
    group = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: larger}
spec: {minMember: 4}
---
"""
    pods = "".join(
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: worker-{number}, labels: {{scheduling.x-k8s.io/pod-group: larger}}}}
spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: "2"}}}}}}]}}
---
"""
        for number in range(4)
    )
    text = explained(tmp_path, "coscheduling_config.yaml", NODE + group + pods, "default/worker-0")
    assert "its group default/larger needs room for 4 pods at once, and there is room for 2" in text
    assert "lower minMember of the PodGroup larger to 2" in text


def test_explain_reports_the_limits_of_a_quota(tmp_path: Path) -> None:
    quota = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: quota}
spec: {min: {cpu: "3"}, max: {cpu: "2"}}
---
"""
    pods = "".join(
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: worker-{number}}}
spec:
  {node}
  containers: [{{name: c, image: i, resources: {{requests: {{cpu: "1"}}}}}}]
---
"""
        for number, node in enumerate(["nodeName: node-1"] * 2 + [""])
    )
    text = explained(tmp_path, "capacity_config.yaml", NODE + quota + pods, "default/worker-2")
    assert "its namespace uses 2 of the 2 cpu that its ElasticQuota quota allows" in text
    assert "raise max to cpu 3 of the ElasticQuota quota" in text
    assert """kubectl patch elasticquota quota -n default --type=merge""" in text


def test_explain_raises_both_limits_of_a_quota(tmp_path: Path) -> None:
    """The pod of 3 CPUs exceeds `max`, and the sum of all guarantees."""
    documents = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: quota}
spec: {min: {cpu: "1"}, max: {cpu: "2"}}
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
"""
    text = explained(tmp_path, "capacity_config.yaml", NODE + documents, "default/large")
    assert "To fix it: raise max to cpu 3 and min to cpu 3 of the ElasticQuota quota" in text


def test_explain_reports_free_resources_of_numa_nodes(tmp_path: Path) -> None:
    documents = """
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: node-1}
attributes: [{name: topologyManagerPolicy, value: single-numa-node}]
zones:
- {name: node-0, type: Node, resources: [{name: cpu, capacity: "2", allocatable: "2", available: "1"}, {name: memory, capacity: 8Gi, allocatable: 8Gi, available: 8Gi}]}
- {name: node-1, type: Node, resources: [{name: cpu, capacity: "2", allocatable: "2", available: "2"}, {name: memory, capacity: 8Gi, allocatable: 8Gi, available: 8Gi}]}
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: c, image: i, resources: {limits: {cpu: "3", memory: 1Gi}}}]}
"""  # noqa: E501
    text = explained(tmp_path, "numa_config.yaml", NODE + documents, "default/large")
    assert "it needs 3 cpu of one NUMA node, and the most that one has left is 2" in text
    assert "(NUMA node 1 of node-1)" in text
    assert "request at most 2 cpu per container" in text
    assert "remove the limits of cpu" in text


def test_explain_names_the_dependencies_that_are_too_far(tmp_path: Path) -> None:
    """The only node is at a cost of 20 from the database, and 15 is allowed."""
    documents = (EXAMPLES / "network.yaml").read_text().split("---\n")
    kept = [each for each in documents if "kind: Deployment\n" not in each.split("metadata")[0]]
    kept = [each for each in kept if "east-4" not in each and "west-2" not in each]
    pods = """
apiVersion: v1
kind: Pod
metadata: {name: database, labels: {appgroup.diktyo.x-k8s.io: shop, appgroup.diktyo.x-k8s.io.workload: database}}
spec: {nodeName: east-3, containers: [{name: c, image: i, resources: {requests: {cpu: "4"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: cart, labels: {appgroup.diktyo.x-k8s.io: shop, appgroup.diktyo.x-k8s.io.workload: cart}}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
"""  # noqa: E501
    text = explained(tmp_path, "network_config.yaml", "---\n".join([*kept, pods]), "default/cart")
    assert "1 pod of database at a cost of 20, where 15 is allowed" in text
    assert "raise maxNetworkCost of database to 20 in the AppGroup shop" in text
    assert """"path": "/spec/workloads/1/dependencies/0/maxNetworkCost", "value": 20""" in text
    assert "remove the pod from its AppGroup" in text


def test_a_simulation_has_the_custom_resources_of_its_files(tmp_path: Path) -> None:
    scenario = f"""
name: gangs
duration: 10m
cluster:
  files: [{EXAMPLES / "coscheduling.yaml"}]
configurations:
- {{name: gangs, file: {EXAMPLES / "coscheduling_config.yaml"}}}
"""
    (tmp_path / "scenario.yaml").write_text(scenario)
    result = CliRunner().invoke(cli, ["simulate", str(tmp_path / "scenario.yaml")])
    counts = dict(re.findall(r"^(bound|pending at the end) +(\d+)$", result.output, re.MULTILINE))
    assert sorted(counts.values()) == ["3", "4"], "one of the two groups is placed"
