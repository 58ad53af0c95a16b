"""Scenarios from files: the parsed scenario, and the messages for mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubesched.api.time import parse_time
from kubesched.errors import ConfigError
from kubesched.sim import load_scenario, parse_scenario

GOOD = """\
kind: Scenario
name: good
duration: 2h
start: 2026-01-05T08:00:00Z
seeds: [1, 4-6]
cluster:
  nodes:
  - name: spot
    count: 2
    cpu: 8
    memory: 32Gi
    resources: {example.com/gpu: 2}
    taints:
    - {key: spot, effect: NoSchedule}
    price: 0.25
workloads:
- name: web
  kind: Deployment
  replicas: 3
  cpu: 500m
  tolerations: [spot]
  template:
    metadata: {labels: {app: web}}
- name: train
  kind: Job
  arrivals: {every: 30m}
  resources: {example.com/gpu: 1}
  duration: 10m
events:
- fail: {group: spot, count: 1}
  rate: 1/h
  for: 5m
autoscaler:
- {group: spot, min: 1, max: 4, delay: 1m}
configurations:
- name: default
- name: first by name
  config:
    profiles:
    - tieBreak: NodeName
"""


def test_a_whole_scenario(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    scenario = load_scenario(path)
    assert scenario.seeds == (1, 4, 5, 6)
    assert scenario.duration_ns == 7200 * 10**9
    spot = scenario.groups[0]
    assert spot.template.status.allocatable["example.com/gpu"] == 2
    assert spot.template.spec.taints[0].key == "spot"
    web, train = scenario.workloads
    assert web.template.metadata.labels["app"] == "web"
    assert web.template.spec.tolerations[0].operator == "Exists"
    assert train.template.spec.containers[0].resources.requests == {"example.com/gpu": "1"}
    assert scenario.configurations[1].configuration is not None
    assert scenario.configurations[1].configuration.profiles[0].tie_break == "NodeName"
    assert scenario.prices == {"spot": 0.25}


def test_the_hash_follows_every_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("")
    text = GOOD + "- {name: filed, file: c.yaml}\n"
    config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    hashes = set()
    for more in ("", "parallelism: 3\n"):
        (tmp_path / "c.yaml").write_text(config + more)
        (tmp_path / "s.yaml").write_text(text)
        hashes.add(load_scenario(tmp_path / "s.yaml").hash)
    assert len(hashes) == 2


MISTAKES = {
    "unknown field": ("duration: 2h", "durations: 2h", 3, "duration: is missing"),
    "unknown field with a hint": (
        "    price: 0.25",
        "    prize: 0.25",
        15,
        "cluster.nodes[0].prize: unknown field; did you mean 'price'?",
    ),
    "no duration": ("duration: 2h", "duration: soon", 3, "duration: 'soon' is not a duration"),
    "no quantity": ("    cpu: 8", "    cpu: lots", 10, "cluster.nodes[0].cpu: 'lots' is no"),
    "no kind": (
        "  kind: Job",
        "  kind: Batch",
        25,
        "workloads[1].kind: must be one of Pod, Job, Deployment",
    ),
    "no group": (
        "fail: {group: spot, count: 1}",
        "fail: {group: spots, count: 1}",
        30,
        "events[0].fail.group: no node group 'spots'; there are spot",
    ),
    "a zone that no node is in": (
        "fail: {group: spot, count: 1}",
        "fail: {zone: zone-a}",
        30,
        "events[0].fail.zone: no zone 'zone-a'; there are none",
    ),
    "an event after the end": (
        "  rate: 1/h",
        "  at: [1h, 3h]",
        30,
        "events[0]: at 3h the run is over: its duration is 2h",
    ),
    "events that begin with the end": (
        "  rate: 1/h",
        "  arrivals: {every: 10m, from: 2h}",
        30,
        "events[0]: at 2h the run is over: its duration is 2h",
    ),
    "a node that is not there": (
        "fail: {group: spot, count: 1}",
        "fail: {nodes: [spot-1, other-1]}",
        30,
        "events[0].fail.nodes[1]: no node 'other-1'",
    ),
    "a node group that cannot be a name": (
        "name: spot\n    count",
        "name: Spot_1\n    count",
        8,
        "cluster.nodes[0].name: 'Spot_1' is no name: a lowercase RFC 1123 subdomain",
    ),
    "no rate": ("rate: 1/h", "rate: often", 31, "events[0].rate: 'often' is not a rate"),
    "no time for an event": ("  rate: 1/h\n", "", 30, "events[0]: needs at, rate or arrivals"),
    "no configuration": (
        "- tieBreak: NodeName",
        "- tieBreak: Name",
        38,
        "configurations[1].config: profiles[0].tieBreak: Unsupported value",
    ),
    "a rule of behaviour": (
        "events:\n",
        "behaviour:\n  rules:\n  - match: {}\n    behavior: {startDelai: 1s}\nevents:\n",
        32,
        "behaviour.rules[0].behavior.startDelai: no such behavior; there are startDelay",
    ),
    "no rules of behaviour": (
        "events:\n",
        "behaviour:\n  rules: there.yaml\nevents:\n",
        30,
        "behaviour.rules: ",
    ),
    "no start": (
        "start: 2026-01-05T08:00:00Z",
        "start: monday",
        4,
        "start: 'monday' is not a time",
    ),
    "no seeds": ("seeds: [1, 4-6]", "seeds: [1, x]", 5, "seeds[1]: 'x' is not a seed"),
    "twice": ("- name: first by name", "- name: default", 37, "configurations[1].name: 'default'"),
    "a name that is a boolean in YAML": (
        "- name: first by name",
        "- name: no",
        37,
        "configurations[1].name: must be text, not False (quote y, n, yes, no, on and off",
    ),
    "wrong kind of value": ("    count: 2", "    count: two", 9, "cluster.nodes[0].count: must be"),
    "a pod that no server takes": (
        "metadata: {labels: {app: web}}",
        "metadata: {labels: {app: 'no good'}}",
        23,
        "workloads[0].template.metadata.labels: Invalid value",
    ),
    "a type that is wrong": (
        "taints:\n    - {key: spot, effect: NoSchedule}",
        "taints:\n    - {key: 7, effect: NoSchedule}",
        14,
        "cluster.nodes[0].taints[0].key: Expected str, got int",
    ),
    "no nodes": (
        GOOD[GOOD.index("  nodes:") : GOOD.index("workloads:")],
        "  nodes: []\n",
        6,
        "cluster: has no nodes: needs nodes, files or capture",
    ),
    "YAML": ("seeds: [1, 4-6]", "seeds: [1", 6, ""),
}


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES)
def test_an_error_is_reported_in_one_line_with_its_location(
    tmp_path: Path, case: tuple[str, str, int, str]
) -> None:
    before, after, line, want = case
    assert before in GOOD
    path = tmp_path / "s.yaml"
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(ConfigError) as caught:
        load_scenario(path)
    text = str(caught.value)
    assert "\n" not in text
    if want and "is missing" not in want:
        assert text.startswith(f"{path}:{line}: {want}")
    assert want in text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml: cannot be read: No such file"):
        load_scenario(tmp_path / "nowhere.yaml")


def test_a_simulation_begins_at_the_latest_time_of_its_objects(tmp_path: Path) -> None:
    node = {"metadata": {"name": "a", "creationTimestamp": "2031-03-01T10:00:00Z"}}
    (tmp_path / "node.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Node", **node}))
    value = {"duration": "1h", "cluster": {"files": ["node.json"]}}
    assert parse_scenario(value, tmp_path).start_ns == parse_time("2031-03-01T10:00:00Z")
    later = parse_scenario({**value, "start": "2031-03-02T00:00:00Z"}, tmp_path)
    assert later.start_ns == parse_time("2031-03-02T00:00:00Z")
    with pytest.raises(ConfigError, match="start: is before 2031-03-01T10:00:00Z"):
        parse_scenario({**value, "start": "2026-01-05T00:00:00Z"}, tmp_path)
