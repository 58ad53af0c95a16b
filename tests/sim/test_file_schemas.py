"""The JSON Schemas of files describe the fields that the readers read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.errors import ConfigError
from kubesched.sim.checks import load_checks
from kubesched.sim.file_schemas import FILE_SCHEMAS
from kubesched.sim.reading import Members
from kubesched.sim.scenario_file import load_scenario
from kubesched.sim.tuning import load_tuning

ROOT = Path(__file__).resolve().parents[2]

SCENARIO = """
kind: Scenario
name: all fields
duration: 12h
start: "2026-01-05T08:00:00Z"
step: 5m
changes: true
seeds: [1, 2-4]
cluster:
  nodes:
  - {name: small, count: 2, cpu: 4, memory: 8Gi, pods: 20, resources: {nvidia.com/gpu: 1},
     labels: {a: b}, annotations: {a: b}, taints: [], zones: [x, z], price: 0.5}
  files: nodes.yaml
workloads:
- {name: web, kind: Deployment, arrivals: {at: [0s, 1h]}, replicas: {uniform: [1, 3]},
   duration: 10m, cpu: {choice: [500m, 1], weights: [1, 2]}, memory: 1Gi,
   startDelay: {exponential: {mean: 1s}}, priority: 3, template: {metadata: {}, spec: {}},
   labels: {a: b}, annotations: {a: b}, resources: {nvidia.com/gpu: 1}, priorityClassName: high,
   nodeSelector: {a: b}, tolerations: [a], affinity: {}, topologySpreadConstraints: [],
   schedulerName: other, preemptionPolicy: Never}
- {name: gang, podGroup: {policy: gang, minCount: 2, topology: rack, disruptionMode: PodGroup}}
- {name: tick, arrivals: {every: 10m, from: 1h, until: 9h},
   duration: {normal: {mean: 1m, deviation: 5s}}}
- {name: many, arrivals: {poisson: 30/h}, duration: {lognormal: {median: 1m, sigma: 1}}}
- {name: day, arrivals: {diurnal: {mean: 10/h, peak: 14h, swing: 0.8}},
   duration: {pareto: {minimum: 1m, shape: 2}}}
- {name: burst, arrivals: {bursts: {every: 6h, size: 5, within: 1m}}}
traces:
- {file: day.jsonl, format: "", speed: 2}
events:
- {fail: {zone: x, count: 1}, at: 1h, for: {uniform: [1m, 2m]}}
- {drain: {nodes: [small-0]}, rate: 0.5/d}
- {add: {group: small, count: 1}, arrivals: {at: 2h}}
- {remove: {group: small, count: 1}, at: 3h}
autoscaler:
- {group: small, min: 0, max: 5, delay: 2m, idle: 10m}
behaviour: {startDelay: 1s, stopDelay: 2s, rules: [{behavior: {startDelay: 1s}}]}
configurations:
- {name: default, featureGates: {GenericWorkload: true}}
- {name: packed, config: {profiles: [{}]}, plugins: []}
- {name: file, file: scheduler.yaml}
"""
CHECK = """
kind: PlacementTest
name: all fields
given: {nodes: [{name: pool, cpu: 4, memory: 8Gi}]}
when:
- pods: {name: web, labels: {app: web}}
- wait: 1m
- fail: {group: pool}
  for: 5m
- drain: {group: pool}
- add: {group: pool, count: 1}
- remove: {group: pool, count: 1}
then:
- placed: {pods: {app: web}, count: 1}
- pending: {pods: {app: web}, count: 0, reason: cpu}
- pendingAtMost: {pods: {app: web}, for: 5m}
- spread: {pods: {app: web}, over: zone, domains: 1, skew: 1}
- never: {pods: {app: web}, nodes: {a: b}}
- only: {pods: {app: web}, nodes: {a: b}}
- perNode: {pods: {app: web}, atMost: 2}
within: 1m
seed: 1
configuration: {config: {profiles: [{}]}, plugins: []}
"""
TUNING = """
scenario: scenario.yaml
config: {profiles: [{}]}
trials: 3
seed: 1
parameters:
  a: {integer: [1, 10]}
  b: {number: [0.5, 1]}
  c: {choice: [x, y]}
objectives:
- minimize: cost
- maximize: mean time to bind
"""
FILES = {"scenario": SCENARIO, "placement-test": CHECK, "tuning": TUNING}
READERS = {
    "scenario": load_scenario,
    "placement-test": lambda path: load_checks([path]),
    "tuning": load_tuning,
}


def problems(name: str, document: Any) -> list[str]:
    from jsonschema import Draft202012Validator

    schema = FILE_SCHEMAS[name]()
    Draft202012Validator.check_schema(schema)
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nodes.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: other}\n")
    (tmp_path / "scheduler.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    (tmp_path / "day.jsonl").write_text(
        '{"format": "kubesched-trace/1", "start": "2026-01-05T00:00:00Z"}\n'
    )
    for name, text in FILES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_every_field_is_valid_for_the_schema_and_the_reader(
    name: str, folder: Path
) -> None:
    assert problems(name, yaml.safe_load(FILES[name])) == []
    READERS[name](folder / f"{name}.yaml")


def properties(schema: dict[str, Any], path: str) -> set[str]:
    """Return the fields that a schema has at a path such as `workloads[].template`."""
    node: dict[str, Any] = schema
    for step in filter(None, re.split(r"\.|(\[\])", path)):
        node = resolved(schema, node)
        node = node["items"] if step == "[]" else node["properties"][step]
    return set(resolved(schema, node)["properties"])


def resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    return schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node


@pytest.mark.parametrize("name", FILES)
def test_a_schema_has_the_fields_that_the_reader_reads(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: dict[str, set[str]] = defaultdict(set)
    taking = Members.raw

    def raw(self: Members, field: str, default: Any = None) -> Any:
        read[re.sub(r"\[\d+\]", "[]", self.path)].add(field)
        return taking(self, field, default)

    monkeypatch.setattr(Members, "raw", raw)
    READERS[name](folder / f"{name}.yaml")
    schema = FILE_SCHEMAS[name]()
    if name == "tuning":  # its reader also reads the scenario
        read = {"": read[""] - set(FILE_SCHEMAS["scenario"]()["properties"]) | {"scenario"}}
        assert read[""] | {"name"} >= properties(schema, "") - {"name"}
        return
    if name == "placement-test":  # its reader passes parts on as a scenario
        read = {
            path: fields for path, fields in read.items() if path.split("[")[0] in ("when", "then")
        }
        read["when[]"] |= {"pods", "fail", "drain", "add", "remove"}
    for path, fields in read.items():
        assert fields == properties(schema, path) or fields < properties(schema, path), path
        missing = properties(schema, path) - fields
        if path == "cluster":
            missing -= {"capture"}
        assert not missing, path


WRONG = {
    "scenario": {"duration": "12x"},
    "placement-test": {"thens": []},
    "tuning": {"trials": "many"},
}


@pytest.mark.parametrize("name", FILES)
def test_documents_that_the_reader_refuses_violate_the_schema(name: str, folder: Path) -> None:
    document = {**yaml.safe_load(FILES[name]), **WRONG[name]}
    assert problems(name, document)
    (folder / "wrong.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError):
        READERS[name](folder / "wrong.yaml")


@pytest.mark.parametrize("page", ["placement-tests.md", "simulate.md"])
def test_files_in_the_documents_are_valid(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    for block in re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        document = yaml.safe_load(block)
        if "objectives" in document:
            assert problems("tuning", document) == []
        elif document.get("kind") == "PlacementTest":
            assert problems("placement-test", document) == []


@pytest.mark.parametrize(
    ("command", "name"), [("simulate", "scenario"), ("check", "placement-test"), ("tune", "tuning")]
)
def test_a_command_prints_the_schema_of_its_file(command: str, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kubesched.cli.main", command, "--print-schema"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == FILE_SCHEMAS[name]()
