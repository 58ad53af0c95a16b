"""Results depend on the objects of a cluster, and not on the dates in them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubesched.explain import Snapshot
from kubesched.explain.clusters.capture import Capture, write_capture
from kubesched.explain.clusters.sources import load_files
from kubesched.sim.scenario_file import parse_scenario
from kubesched.sim.simulation import simulate

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TAKEN = "2025-06-02T08:30:00Z"
# Two replicas behind a budget, one pod that is terminating, one of which a container has ended, a
# Job that is running, a CronJob, and a pod that waits.
CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: a, uid: n-a, creationTimestamp: "2025-05-01T00:00:00Z"}
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "10"}
  conditions: [{type: Ready, status: "True", lastHeartbeatTime: "2025-06-02T08:29:00Z"}]
---
apiVersion: v1
kind: Node
metadata: {name: b, uid: n-b, creationTimestamp: "2025-05-01T00:00:00Z"}
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "10"}
  conditions: [{type: Ready, status: "True", lastHeartbeatTime: "2025-06-02T08:29:10Z"}]
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: default, uid: rs-1, creationTimestamp: "2025-05-30T00:00:00Z"}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: x}]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default, uid: b-1, creationTimestamp: "2025-05-30T00:00:00Z"}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: hourly, namespace: default, uid: c-1, creationTimestamp: "2025-05-30T00:00:00Z"}
spec:
  schedule: "0 * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: x, resources: {requests: {cpu: 100m}}}]
status: {lastScheduleTime: "2025-06-02T08:00:00Z"}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, namespace: default, uid: p-9, creationTimestamp: "2025-06-02T08:20:00Z"}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "8"}}}]}
status: {phase: Pending}
"""
REPLICA = """
---
apiVersion: v1
kind: Pod
metadata:
  name: web-{n}
  namespace: default
  uid: p-{n}
  labels: {{app: web}}
  creationTimestamp: "2025-06-01T00:00:00Z"
  ownerReferences:
  - {{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: rs-1, controller: true}}
spec:
  nodeName: {node}
  containers: [{{name: c, image: x, resources: {{requests: {{cpu: "1"}}}}}}]
status:
  phase: Running
  startTime: "2025-06-01T00:00:01Z"
  conditions: [{{type: Ready, status: "True", lastTransitionTime: "2025-06-01T00:00:05Z"}}]
  containerStatuses:
  - {{name: c, image: x, imageID: x, ready: true, restartCount: 0,
     state: {{running: {{startedAt: "2025-06-01T00:00:04Z"}}}}}}
"""


def moved(text: str, days: int) -> str:
    """Move every time in a text by whole days."""

    def later(match: re.Match[str]) -> str:
        at = datetime.strptime(match[0], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return (at + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")

    return TIME.sub(later, text)


def captured(tmp_path: Path, days: int) -> Path:
    text = CLUSTER + REPLICA.format(n=1, node="a") + REPLICA.format(n=2, node="b")
    dump = tmp_path / f"dump{days}.yaml"
    dump.write_text(moved(text, days))
    path = tmp_path / f"c{days}.capture"
    objects = load_files([dump]).objects
    write_capture(Capture(tuple(objects), moved(TAKEN, days)), path)
    return path


def answers(tmp_path: Path, days: int) -> dict[str, Any]:
    """Return the output of every command for a cluster whose dates are shifted."""
    path = captured(tmp_path, days)
    snapshot = Snapshot.from_capture(path)
    dumped = Snapshot.from_files(tmp_path / f"dump{days}.yaml")
    scenario = parse_scenario(
        {
            "duration": "2h",
            "cluster": {"capture": path.name},
            "events": [{"drain": {"nodes": ["a"]}, "at": "30m"}],
        },
        tmp_path,
    )
    run = simulate(scenario, scenario.configurations[0], 7)[0]
    texts = {
        "drain": snapshot.whatif(drain=("a",)).to_dict(),
        "drain of a dump": dumped.whatif(drain=("a",)).to_dict(),
        "both": snapshot.whatif(drain=("a",), add=1).to_dict(),
        "explain": snapshot.explain("waits").to_dict(),
        "explain a placed one": snapshot.explain("web-1").to_dict(),
        "fit": msgspec.to_builtins(snapshot.fit(snapshot.pod("waits"))),
        "simulated": {"counts": run.counts, "pending": run.pending, "series": run.series},
    }
    return {
        name: TIME.sub("TIME", msgspec.json.encode(text).decode()) for name, text in texts.items()
    }


@pytest.mark.parametrize("days", [-3650, 214, 3650])
def test_no_answer_depends_on_the_dates_of_a_capture(tmp_path: Path, days: int) -> None:
    assert answers(tmp_path, days) == answers(tmp_path, 0)


def test_a_budget_that_one_replica_may_leave_lets_a_drain_pass_at_any_date(tmp_path: Path) -> None:
    answer = Snapshot.from_capture(captured(tmp_path, 500)).whatif(drain=("a",))
    assert not answer.blocked
    assert [(move.before, move.after) for move in answer.moved] == [("a", "b")]
