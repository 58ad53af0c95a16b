"""`kubesched run` writes what the reference wrote to a real API server."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from kubesched.api import Pod, codec
from kubesched.api.events import Event
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.testing import make_node
from tests.integration.scheduler_cluster import Cluster, ended, run_steps

NODES = 5000
# Plugins that decide about a pod, besides those that run for every pod.
NEEDS = {"nopvc": "VolumeBinding"}


def recorded(goldens: Path, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads((goldens / "api" / name).read_text())["items"]
    return items


def as_created(pod: dict[str, Any]) -> Pod:
    metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return codec.from_builtins({"metadata": metadata, "spec": spec}, Pod)


def conditions(pod: dict[str, Any]) -> list[dict[str, Any]]:
    times = ("lastProbeTime", "lastTransitionTime")
    return [
        {key: value for key, value in condition.items() if key not in times}
        for condition in pod["status"].get("conditions", ())
    ]


def told(event: dict[str, Any]) -> dict[str, Any]:
    kept = ("action", "reason", "type", "reportingController", "series", "related")
    regarding = {
        key: value
        for key, value in event["regarding"].items()
        if key not in ("uid", "resourceVersion")
    }
    # Which of 5000 equal nodes it is depends on chance.
    note = event["note"].partition(" to node-")[0]
    shown = {key: event[key] for key in kept if event.get(key)}
    return {**shown, "regarding": regarding, "note": note}


@pytest.mark.slow
def test_conditions_and_events_are_the_references(goldens: Path, tmp_path: Path) -> None:
    wanted = [
        pod
        for pod in recorded(goldens, "pods.json")
        if NEEDS.get(pod["metadata"]["name"], "DefaultBinder") in IN_TREE_PLUGINS
    ]
    names = {pod["metadata"]["name"] for pod in wanted}
    events = [
        event for event in recorded(goldens, "events.json") if event["regarding"]["name"] in names
    ]

    async def steps(cluster: Cluster) -> None:
        for number in range(NODES):
            node = make_node(f"node-{number:05d}", cpu="32", memory="64Gi")
            await cluster.create(node)
        for pod in wanted:
            await cluster.create(as_created(pod))
        async with cluster.scheduler() as process:
            await cluster.until_decided(len(wanted))
            process.send_signal(signal.SIGTERM)
            assert (await ended(process))[0] == 0
        for pod in wanted:
            written = await cluster.api.get(Pod, pod["metadata"]["name"], "default")
            assert conditions(codec.to_builtins(written)) == conditions(pod)
        key = json.dumps
        made = [told(codec.to_builtins(event)) for event in (await cluster.api.list(Event)).items]
        about_pods = [event for event in made if event["regarding"]["kind"] == "Pod"]
        assert sorted(about_pods, key=key) == sorted(map(told, events), key=key)

    run_steps(tmp_path, steps, nodes=0)
