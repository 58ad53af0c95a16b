"""Specs of the scheduler in its cluster.

Each spec has its own cluster, because the specs depend on the free resources of nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.specs.spec_runner import Json, Spec, SpecSteps, condition_of, play, pod

FAKE = "example.com/fakecpu"


def give(spec: Spec, node: str, resource: str, amount: str) -> None:
    """Send a status as a Go client does: absent fields are sent as empty values."""
    resources = {resource: amount}
    empty = {"machineID": "", "kubeletVersion": "", "operatingSystem": "", "architecture": ""}
    endpoints = {"kubeletEndpoint": {"Port": 0}}
    status = {"capacity": resources, "allocatable": resources, "nodeInfo": empty}
    body = {"metadata": {}, "spec": {}, "status": {**status, "daemonEndpoints": endpoints}}
    patched = spec.patch("nodes", node, body, "status")
    assert resource in patched["status"]["allocatable"]


def asking(name: str, resource: str, amount: str, **spec: Any) -> Json:
    resources = {"requests": {resource: amount}, "limits": {resource: amount}}
    made = pod(name, **spec)
    made["spec"]["containers"][0]["resources"] = resources
    return made


def on(node: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def classes(spec: Spec) -> None:
    for name, value in (("low", 1), ("medium", 100), ("high", 1000)):
        spec.create("priorityclasses", {"metadata": {"name": name}, "value": value})


def placed(spec: Spec, name: str) -> str:
    return str(spec.get("pods", name)["spec"].get("nodeName", ""))


def is_going(spec: Spec, name: str) -> bool:
    if not spec.exists("pods", name):
        return True
    return "deletionTimestamp" in spec.get("pods", name)["metadata"]


def _preempts(priority: str, namespace: str = "") -> SpecSteps:
    async def steps(spec: Spec) -> None:
        classes(spec)
        names = []
        for node in ("node-0", "node-1"):
            give(spec, node, FAKE, "5")
            for number in range(2):
                names.append(f"{node}-{number}")
                rank = "low" if len(names) == 1 else "medium"
                made = asking(names[-1], FAKE, "2", affinity=on(node), priorityClassName=rank)
                spec.create("pods", made)
        await spec.until(lambda: len(spec.running()) == 4)
        home = Spec(spec.service, spec.clock, namespace or spec.namespace)
        home.create("pods", asking("preemptor", FAKE, "2", priorityClassName=priority))
        await spec.until(lambda: placed(home, "preemptor"))
        await spec.until(lambda: home.get("pods", "preemptor")["status"]["phase"] == "Running")
        assert is_going(spec, names[0])
        assert not any(is_going(spec, name) for name in names[1:])

    return steps


async def _marks_victims(spec: Spec) -> None:
    classes(spec)
    give(spec, "node-0", FAKE, "1")
    victim = asking("victim", FAKE, "1", affinity=on("node-0"), priorityClassName="low")
    victim["metadata"]["finalizers"] = ["example.com/test-finalizer"]
    spec.create("pods", victim)
    await spec.until(spec.running)
    made = asking("preemptor", FAKE, "1", affinity=on("node-0"), priorityClassName="high")
    spec.create("pods", made)
    await spec.until(lambda: is_going(spec, "victim"))
    assert condition_of(spec.get("pods", "victim"), "DisruptionTarget") == "True"
    spec.patch("pods", "victim", {"metadata": {"finalizers": None}}, kind="merge")
    await spec.until(lambda: placed(spec, "preemptor") == "node-0")


async def _preempts_many(spec: Spec) -> None:
    classes(spec)
    nodes = ("node-0", "node-1")
    stop = {"lifecycle": {"preStop": {"sleep": {"seconds": 79}}}}
    for node in nodes:
        give(spec, node, FAKE, "10")
        for number in range(10):
            made = asking(f"{node}-{number}", FAKE, "1", affinity=on(node))
            made["spec"] |= {"priorityClassName": "low", "terminationGracePeriodSeconds": 80}
            made["spec"]["containers"][0] |= stop
            spec.create("pods", made)
    await spec.until(lambda: len(spec.running()) == 20)
    low = [each["metadata"]["name"] for each in spec.pods()]
    medium = [f"medium-{number}" for number in range(20)]
    for name in medium:
        spec.create("pods", asking(name, FAKE, "1", priorityClassName="medium"))
    await spec.until(lambda: all(is_going(spec, name) for name in low))
    assert all(spec.exists("pods", name) for name in low), "they take their time"
    high = [f"high-{number}" for number in range(10)]
    for name in high:
        spec.create("pods", asking(name, FAKE, "1", priorityClassName="high"))
    await spec.until(
        lambda: all(spec.get("pods", name)["status"].get("nominatedNodeName") for name in high)
    )
    for name in low:
        spec.delete("pods", name, gracePeriodSeconds=0)
    await spec.until(lambda: all(placed(spec, name) for name in high))
    await spec.until(lambda: sum(bool(placed(spec, name)) for name in medium) == 10)
    await spec.sleep(5)
    assert sum(bool(placed(spec, name)) for name in medium) == 10


async def _preempts_for_spread(spec: Spec) -> None:
    classes(spec)
    key = "kubernetes.io/e2e-pts-preemption"
    for node in ("node-0", "node-1"):
        give(spec, node, FAKE, "10")
        spec.patch("nodes", node, {"metadata": {"labels": {key: node}}})
    labels = {"e2e-pts-preemption": ""}
    expression = {"key": key, "operator": "In", "values": ["node-0", "node-1"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    given: Json = {"labels": labels, "affinity": affinity}
    for name, amount, rank in (
        ("high", "9", "high"),
        ("low-1", "3", "low"),
        ("low-2", "3", "low"),
        ("low-3", "3", "low"),
    ):
        spec.create("pods", asking(name, FAKE, amount, priorityClassName=rank, **given))
        await spec.until(lambda name=name: placed(spec, name))
    selector = {"matchExpressions": [{"key": "e2e-pts-preemption", "operator": "Exists"}]}
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    given["topologySpreadConstraints"] = [constraint]
    spec.create("pods", asking("medium", FAKE, "3", priorityClassName="medium", **given))
    await spec.until(lambda: placed(spec, "medium"))
    await spec.until(lambda: len(spec.pods()) == 3)
    left = sorted(each["metadata"]["name"].partition("-")[0] for each in spec.pods())
    assert left == ["high", "low", "medium"]


async def _preempts_sets_once(spec: Spec) -> None:
    for number in range(1, 5):
        spec.create("priorityclasses", {"metadata": {"name": f"p{number}"}, "value": number})
    give(spec, "node-0", FAKE, "1000")
    watch = spec.watch("pods")
    here = {"kubernetes.io/hostname": "node-0"}
    for number, amount in ((1, "200"), (2, "300"), (3, "450")):
        labels = {"name": f"pod{number}"}
        made = asking("x", FAKE, amount, priorityClassName=f"p{number}", nodeSelector=here)
        template = {"metadata": {"labels": labels}, "spec": made["spec"]}
        body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        spec.create("replicasets", {"metadata": {"name": f"rs-pod{number}"}, "spec": body})
        await spec.until(lambda labels=labels: spec.running(f"name={labels['name']}"))
    made = asking("pod4", FAKE, "500", priorityClassName="p4", nodeSelector=here)
    spec.create("pods", made)
    await spec.until(lambda: placed(spec, "pod4"))
    await spec.sleep(15)
    added = [each["object"]["metadata"]["name"] for each in watch.read() if each["type"] == "ADDED"]
    counts = [sum(name.startswith(f"rs-pod{number}") for name in added) for number in (1, 2, 3)]
    assert counts == [2, 2, 1]


async def _ports(spec: Spec) -> None:
    """The same port on another address or with another protocol is no conflict."""
    here = {"kubernetes.io/hostname": "node-0"}

    def using(name: str, address: str, protocol: str) -> Json:
        made = pod(name, nodeSelector=here)
        port = {"containerPort": 8080, "hostPort": 54321, "hostIP": address, "protocol": protocol}
        made["spec"]["containers"][0]["ports"] = [port]
        return made

    for name, address, protocol in (
        ("pod1", "127.0.0.1", "TCP"),
        ("pod2", "10.0.0.1", "TCP"),
        ("pod3", "10.0.0.1", "UDP"),
    ):
        spec.create("pods", using(name, address, protocol))
        await spec.until(lambda name=name: name in {p["metadata"]["name"] for p in spec.running()})
    spec.create("pods", using("pod4", "0.0.0.0", "TCP"))
    await spec.sleep(10)
    assert not placed(spec, "pod4")
    assert "FailedScheduling" in spec.events("pod4")


async def _limits(spec: Spec) -> None:
    """Nodes are filled, and one more pod is rejected with an event."""
    for node in ("node-0", "node-1"):
        spec.create("pods", asking(f"filler-{node}", "cpu", "7", affinity=on(node)))
    await spec.until(lambda: len(spec.running()) == 2)
    spec.create("pods", asking("additional", "cpu", "4"))
    await spec.until(lambda: "FailedScheduling" in spec.events("additional"))
    assert not placed(spec, "additional")
    for name, given in (
        ("selector", {"nodeSelector": {"label": "nonempty"}}),
        (
            "affinity",
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "foo", "operator": "In", "values": ["bar"]}
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
        ),
    ):
        spec.create("pods", pod(name, **given))
        await spec.until(lambda name=name: "FailedScheduling" in spec.events(name))
        assert condition_of(spec.get("pods", name), "PodScheduled") == "False"


async def _overhead(spec: Spec) -> None:
    """The kubelet adds extended resources of the capacity to the allocatable, and removes them."""
    beard = "example.com/beardsecond"

    def write(change: Callable[[Json], object]) -> None:
        found = spec.get("nodes", "node-0")
        found["metadata"]["resourceVersion"] = "0"  # whatever was written in between
        change(found["status"]["capacity"])
        spec.update("nodes", found, "status")

    write(lambda capacity: capacity.update({beard: "1000"}))
    overhead = {"podFixed": {beard: "250"}}
    made = {"metadata": {"name": "test-handler"}, "handler": "test-handler", "overhead": overhead}
    spec.create("runtimeclasses", made)
    here = {"kubernetes.io/hostname": "node-0"}
    spec.create("pods", asking("filler", beard, "700", nodeSelector=here))
    await spec.until(spec.running)
    made = asking("additional", beard, "200", nodeSelector=here, runtimeClassName="test-handler")
    spec.create("pods", made)
    await spec.until(lambda: "FailedScheduling" in spec.events("additional"))
    assert not placed(spec, "additional")
    write(lambda capacity: capacity.pop(beard))
    await spec.until(lambda: beard not in spec.get("nodes", "node-0")["status"]["allocatable"])


async def _gates(spec: Spec) -> None:
    gates = [{"name": "foo"}, {"name": "bar"}]
    labels = {"name": "rs"}
    template = {"metadata": {"labels": labels}, "spec": pod("x", schedulingGates=gates)["spec"]}
    body = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    spec.create("replicasets", {"metadata": {"name": "rs"}, "spec": body})
    await spec.until(lambda: len(spec.pods()) == 3)
    for each in spec.pods():
        (condition,) = each["status"]["conditions"]
        assert condition["reason"] == "SchedulingGated"
    for left in ([{"name": "bar"}], []):
        for each in spec.pods():
            name = each["metadata"]["name"]
            spec.change("pods", name, lambda p, left=left: p["spec"].update(schedulingGates=left))
        await spec.sleep(5)
        assert len(spec.running()) == (0 if left else 3)


async def _spreads(spec: Spec) -> None:
    key = "kubernetes.io/e2e-pts-filter"
    for node in ("node-0", "node-1"):
        spec.patch("nodes", node, {"metadata": {"labels": {key: node}}})
    labels = {"e2e-pts-filter": ""}
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "e2e-pts-filter", "operator": "Exists"}]},
    }
    made = pod("x", topologySpreadConstraints=[constraint])
    template = {"metadata": {"labels": labels}, "spec": made["spec"]}
    body = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    spec.create("replicasets", {"metadata": {"name": "rs"}, "spec": body})
    await spec.until(lambda: len(spec.running()) == 4)
    nodes = sorted(each["spec"]["nodeName"] for each in spec.running())
    assert nodes == ["node-0", "node-0", "node-1", "node-1"]


async def _taints(spec: Spec) -> None:
    taint = {"key": "kubernetes.io/e2e-taint-key", "value": "testing", "effect": "NoSchedule"}
    spec.patch("nodes", "node-0", {"metadata": {"labels": {"e2e-label": "here"}}})
    spec.change("nodes", "node-0", lambda node: node["spec"].update(taints=[taint]))
    here = {"e2e-label": "here"}
    toleration = {"key": taint["key"], "operator": "Equal", "value": "testing"}
    toleration["effect"] = "NoSchedule"
    spec.create("pods", pod("tolerant", nodeSelector=here, tolerations=[toleration]))
    await spec.until(lambda: placed(spec, "tolerant") == "node-0")
    spec.create("pods", pod("intolerant", nodeSelector=here))
    await spec.until(lambda: "FailedScheduling" in spec.events("intolerant"))
    spec.change("nodes", "node-0", lambda node: node["spec"].pop("taints"))
    await spec.until(lambda: placed(spec, "intolerant") == "node-0")


async def _limit_ranges(spec: Spec) -> None:
    item = {
        "type": "Container",
        "min": {"cpu": "50m", "memory": "100Mi", "ephemeral-storage": "100Gi"},
        "max": {"cpu": "500m", "memory": "500Mi", "ephemeral-storage": "500Gi"},
        "default": {"cpu": "500m", "memory": "500Mi", "ephemeral-storage": "500Gi"},
        "defaultRequest": {"cpu": "100m", "memory": "200Mi", "ephemeral-storage": "200Gi"},
    }
    spec.create("limitranges", {"metadata": {"name": "limits"}, "spec": {"limits": [item]}})
    held = spec.create("pods", pod("p"))["spec"]["containers"][0]["resources"]
    assert held == {"limits": item["default"], "requests": item["defaultRequest"]}
    partial = pod("q")
    requests = {"cpu": "300m", "memory": "150Mi"}
    partial["spec"]["containers"][0]["resources"] = {"requests": requests}
    held = spec.create("pods", partial)["spec"]["containers"][0]["resources"]
    assert held["requests"] == {**item["defaultRequest"], **requests}
    too_small = asking("small", "cpu", "10m")
    assert "minimum cpu usage" in spec.refused("pods", too_small, 403)
    too_large = asking("large", "cpu", "600m")
    assert "maximum cpu usage" in spec.refused("pods", too_large, 403)
    spec.change(
        "limitranges",
        "limits",
        lambda found: found["spec"]["limits"][0]["min"].update(cpu="9m", memory="10Mi"),
    )
    spec.create("pods", too_small)
    spec.patch("limitranges", "limits", {"metadata": {"labels": {"limits": "patched"}}})
    assert len(spec.list("limitranges", "limits=patched", everywhere=True)) == 1
    spec.delete_all("limitranges", "limits=patched")
    assert not spec.list("limitranges")
    spec.create("pods", too_large)


SCENARIOS: dict[str, SpecSteps] = {
    "a high priority preempts": _preempts("high"),
    "a critical pod preempts": _preempts("system-cluster-critical", "kube-system"),
    "a victim is told why": _marks_victims,
    "many preempt": _preempts_many,
    "preemption minds spread": _preempts_for_spread,
    "sets are preempted once": _preempts_sets_once,
    "host ports": _ports,
    "resources, selectors and affinity": _limits,
    "overhead": _overhead,
    "gates": _gates,
    "spread": _spreads,
    "taints": _taints,
    "limit ranges": _limit_ranges,
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scheduling(scenario: str) -> None:
    (error,) = play({scenario: SCENARIOS[scenario]}).values()
    if error is not None:
        raise error
