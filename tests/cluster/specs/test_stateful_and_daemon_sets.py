"""Specs of StatefulSets and DaemonSets."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from tests.cluster.specs.spec_runner import (
    Json,
    RefusedError,
    Spec,
    SpecSteps,
    condition_of,
    is_ready,
    play,
    pod,
)

OLD = "registry.k8s.io/e2e-test-images/httpd:2.4.38-4"
NEW = "registry.k8s.io/e2e-test-images/httpd:2.4.39-4"
HASH = "controller-revision-hash"


def stateful_set(name: str, replicas: int, **spec: Any) -> Json:
    labels = {"foo": "bar", "baz": "blah"}
    probe = {"httpGet": {"path": "/index.html", "port": 80}, "periodSeconds": 1}
    container = {"name": "webserver", "image": OLD, "readinessProbe": probe}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    wanted = {
        "replicas": replicas,
        "serviceName": "test",
        "selector": {"matchLabels": labels},
        "template": template,
        **spec,
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": wanted}


def status(spec: Spec, name: str = "ss") -> Json:
    held = spec.get("statefulsets", name)
    assert held["status"].get("observedGeneration", 0) <= held["metadata"]["generation"]
    return held["status"]


async def settled(spec: Spec, name: str = "ss") -> Json:
    def seen() -> Json:
        held = spec.get("statefulsets", name)
        if held["status"].get("observedGeneration") == held["metadata"]["generation"]:
            return held["status"]
        return None

    return await spec.until(seen)


def ordinals(spec: Spec) -> list[str]:
    return sorted(each["metadata"]["name"] for each in spec.pods("foo=bar") if is_ready(each))


def marks(spec: Spec) -> list[tuple[str, str]]:
    """The image and version of each pod, in order."""
    pods = sorted(spec.pods("foo=bar"), key=lambda each: each["metadata"]["name"])
    return [
        (each["spec"]["containers"][0]["image"], each["metadata"]["labels"][HASH]) for each in pods
    ]


async def _up(spec: Spec, count: int, name: str = "ss") -> None:
    wanted = [f"{name}-{number}" for number in range(count)]
    await spec.until(lambda: ordinals(spec) == wanted and len(spec.pods("foo=bar")) == count, 120)


def _image(found: Json) -> None:
    found["spec"]["template"]["spec"]["containers"][0]["image"] = NEW


def _rolling(partition: int) -> Json:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}


async def _phases(spec: Spec) -> None:
    spec.create("statefulsets", stateful_set("ss", 3, updateStrategy=_rolling(3)))
    await _up(spec, 3)
    held = await settled(spec)
    first = held["currentRevision"]
    assert held["updateRevision"] == first
    assert marks(spec) == [(OLD, first)] * 3
    spec.change("statefulsets", "ss", _image)
    held = await settled(spec)
    second = held["updateRevision"]
    assert held["currentRevision"] == first != second
    await spec.sleep(5)
    assert marks(spec) == [(OLD, first)] * 3
    _set_strategy(spec, _rolling(2))
    canary = [(OLD, first), (OLD, first), (NEW, second)]
    await spec.until(lambda: marks(spec) == canary and len(ordinals(spec)) == 3)
    for number in (0, 2):
        spec.delete("pods", f"ss-{number}")
    await spec.until(lambda: len(ordinals(spec)) < 3)
    await _up(spec, 3)
    assert marks(spec) == canary
    for partition in (1, 0):
        _set_strategy(spec, _rolling(partition))
        wanted = [(OLD, first)] * partition + [(NEW, second)] * (3 - partition)
        await spec.until(lambda wanted=wanted: marks(spec) == wanted)
        await _up(spec, 3)
    await spec.until(lambda: status(spec)["currentRevision"] == second)
    assert status(spec)["updatedReplicas"] == 3
    names = {each["metadata"]["name"] for each in spec.list("controllerrevisions")}
    assert names == {first, second}


def _set_strategy(spec: Spec, strategy: Json) -> None:
    def change(found: Json) -> None:
        found["spec"]["updateStrategy"] = strategy

    spec.change("statefulsets", "ss", change)


async def _updates_when_deleted(spec: Spec) -> None:
    spec.create("statefulsets", stateful_set("ss", 3, updateStrategy={"type": "OnDelete"}))
    await _up(spec, 3)
    first = (await settled(spec))["currentRevision"]
    await _all_again(spec)
    assert marks(spec) == [(OLD, first)] * 3
    spec.change("statefulsets", "ss", _image)
    second = (await settled(spec))["updateRevision"]
    assert status(spec)["currentRevision"] == first != second
    await _all_again(spec)
    assert marks(spec) == [(NEW, second)] * 3


async def _all_again(spec: Spec) -> None:
    for number in range(3):
        spec.delete("pods", f"ss-{number}")
    await spec.until(lambda: not ordinals(spec))
    await _up(spec, 3)


async def _set_scale(spec: Spec) -> None:
    spec.create("statefulsets", stateful_set("ss", 1))
    await _up(spec, 1)
    scale = spec.get("statefulsets", "ss", "scale")
    assert scale["spec"]["replicas"] == scale["status"]["replicas"] == 1
    scale["metadata"]["resourceVersion"] = ""
    scale["spec"]["replicas"] = 2
    assert spec.update("statefulsets", scale, "scale")["spec"]["replicas"] == 2
    assert spec.get("statefulsets", "ss")["spec"]["replicas"] == 2
    spec.patch("statefulsets", "ss", {"spec": {"replicas": 4}}, "scale")
    assert spec.get("statefulsets", "ss")["spec"]["replicas"] == 4
    await _up(spec, 4)


async def _set_collection(spec: Spec) -> None:
    made = stateful_set("ss", 2)
    made["metadata"]["labels"] = {"e2e": "testing"}
    spec.create("statefulsets", made)
    await _up(spec, 2)
    assert len(spec.list("statefulsets", "e2e=testing", everywhere=True)) == 1
    containers = [{"name": "webserver", "image": NEW}]
    template = {"spec": {"terminationGracePeriodSeconds": 0, "containers": containers}}
    body = {
        "metadata": {"labels": {"ss": "patched"}},
        "spec": {"replicas": 2, "template": template},
    }
    patched = spec.patch("statefulsets", "ss", body)
    assert patched["metadata"]["labels"]["ss"] == "patched"
    await spec.until(lambda: status(spec)["currentRevision"] == status(spec)["updateRevision"], 120)
    await spec.until(lambda: {image for image, _ in marks(spec)} == {NEW}, 120)
    spec.delete_all("statefulsets", "e2e=testing")
    await spec.until(lambda: not spec.list("statefulsets", "e2e=testing"))


async def _set_status(spec: Spec) -> None:
    spec.create("statefulsets", stateful_set("ss", 1))
    await _up(spec, 1)
    held = spec.get("statefulsets", "ss", "status")
    custom = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "here"}
    held["status"].setdefault("conditions", []).append(custom)
    assert condition_of(spec.update("statefulsets", held, "status"), "StatusUpdate") == "True"
    body = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
    patched = spec.patch("statefulsets", "ss", body, "status")
    assert condition_of(patched, "StatusPatched") == "True"


async def _recreates_a_refused_pod(spec: Spec) -> None:
    """Another pod uses the port; the set's pod is recreated until that pod is deleted."""
    ports = [{"containerPort": 21017, "hostPort": 21017}]
    container = {"name": "webserver", "image": OLD, "ports": ports}
    spec.create("pods", pod("test-pod", containers=[container], nodeName="node-0"))
    await spec.until(spec.running)
    made = stateful_set("ss", 1)
    made["spec"]["template"]["spec"] = {"containers": [container], "nodeName": "node-0"}
    watch = spec.watch("pods", labels="foo=bar")
    spec.create("statefulsets", made)
    await spec.until(
        lambda: (
            any(each["type"] == "DELETED" for each in watch.read())
            and any(each["object"]["status"]["phase"] == "Failed" for each in watch.read())
        )
    )
    spec.delete("pods", "test-pod")
    await spec.until(lambda: ordinals(spec) == ["ss-0"])


async def _waits_for_readiness(spec: Spec) -> None:
    spec.create("statefulsets", stateful_set("ss", 2, minReadySeconds=30))
    await spec.until(lambda: status(spec).get("readyReplicas") == 1)
    assert status(spec)["availableReplicas"] == 0
    await spec.always(lambda: len(spec.pods("foo=bar")) == 1, 20)
    await spec.until(lambda: status(spec)["availableReplicas"] == 2, 120)
    spec.change("statefulsets", "ss", lambda found: found["spec"].update(minReadySeconds=3600))
    await spec.until(lambda: status(spec)["availableReplicas"] == 0, 60)
    spec.change("statefulsets", "ss", lambda found: found["spec"].update(minReadySeconds=0))
    await spec.until(lambda: status(spec)["availableReplicas"] == 2, 60)


def _begins_at(before: int | None, after: int | None) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        given = {} if before is None else {"ordinals": {"start": before}}
        spec.create("statefulsets", stateful_set("ss", 2, **given))
        await spec.until(lambda: ordinals(spec) == _names(before))

        def change(found: Json) -> None:
            if after is None:
                del found["spec"]["ordinals"]
            else:
                found["spec"]["ordinals"] = {"start": after}

        spec.change("statefulsets", "ss", change)
        await spec.until(lambda: ordinals(spec) == _names(after) and len(spec.pods()) == 2, 120)
        assert status(spec)["replicas"] == 2

    return steps


def _names(start: int | None) -> list[str]:
    return [f"ss-{number + (start or 0)}" for number in range(2)]


async def _revisions_live(spec: Spec) -> None:
    """ControllerRevisions: read, patched, replaced, listed, deleted and made again."""
    spec.create("daemonsets", daemon_set("e2e"))
    await spec.until(lambda: len(spec.running()) == 2)
    (first,) = spec.list("controllerrevisions", "daemonset-name=e2e")
    assert first["revision"] == 1
    assert _matches(spec, "e2e", first)
    name = first["metadata"]["name"]
    patched = spec.patch("controllerrevisions", name, {"metadata": {"labels": {name: "patched"}}})
    assert patched["metadata"]["labels"][name] == "patched"
    copy = {
        "metadata": {
            "name": f"{name}-copy",
            "labels": first["metadata"]["labels"],
            "ownerReferences": first["metadata"]["ownerReferences"],
        },
        "data": first["data"],
        "revision": first["revision"] + 1,
    }
    spec.create("controllerrevisions", copy)
    spec.delete("controllerrevisions", name)
    left = await spec.until(lambda: spec.list("controllerrevisions", "daemonset-name=e2e"))
    assert [each["metadata"]["name"] for each in left] == [f"{name}-copy"]

    def label(found: Json) -> None:
        found["metadata"]["labels"][f"{name}-copy"] = "updated"

    spec.change("controllerrevisions", f"{name}-copy", label)
    body = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}
    spec.patch("daemonsets", "e2e", body)
    await spec.until(lambda: len(spec.list("controllerrevisions", "daemonset-name=e2e")) == 2)
    spec.delete_all("controllerrevisions", f"{name}-copy=updated")
    await spec.until(lambda: len(spec.list("controllerrevisions", "daemonset-name=e2e")) == 1)
    (last,) = spec.list("controllerrevisions", "daemonset-name=e2e")
    assert last["revision"] == 3


def daemon_set(name: str, image: str = OLD, **spec: Any) -> Json:
    labels = {"daemonset-name": name}
    container = {"name": "app", "image": image, "ports": [{"containerPort": 9376}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    wanted = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"metadata": {"name": name, "labels": labels}, "spec": wanted}


def _matches(spec: Spec, name: str, revision: Json) -> bool:
    """Templates are compared as a Go client does: encoded with sorted keys, byte for byte."""
    template = spec.get("daemonsets", name)["spec"]["template"]
    patch = {"spec": {"template": {**template, "$patch": "replace"}}}
    wanted = json.dumps(patch, sort_keys=True, separators=(",", ":"))
    answer = spec.ask("GET", spec.path("controllerrevisions", revision["metadata"]["name"]))
    return f'"data":{wanted}'.encode() in answer.body  # type: ignore[union-attr]


def on_nodes(spec: Spec) -> list[str]:
    return sorted(each["spec"]["nodeName"] for each in spec.running())


async def _runs_everywhere(spec: Spec) -> None:
    spec.create("daemonsets", daemon_set("ds"))
    await spec.until(lambda: on_nodes(spec) == ["node-0", "node-1"])
    held = spec.get("daemonsets", "ds")["status"]
    assert held["desiredNumberScheduled"] == held["currentNumberScheduled"] == 2
    gone = spec.pods()[0]["metadata"]["name"]
    spec.delete("pods", gone)
    await spec.until(lambda: not spec.exists("pods", gone))
    await spec.until(lambda: on_nodes(spec) == ["node-0", "node-1"])
    failing = spec.pods()[0]
    failing["metadata"]["resourceVersion"] = ""
    failing["status"]["phase"] = "Failed"
    spec.update("pods", failing, "status")
    name = failing["metadata"]["name"]
    await spec.until(lambda: not spec.exists("pods", name))
    await spec.until(lambda: on_nodes(spec) == ["node-0", "node-1"])
    spec.delete("daemonsets", "ds", propagationPolicy="Background")
    await spec.until(lambda: not spec.pods())


def _follows_a_label(key: str, spec_of_pods: Json) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        made = daemon_set("ds")
        made["spec"]["template"]["spec"] |= spec_of_pods
        spec.create("daemonsets", made)
        await spec.always(lambda: not spec.pods(), 3)
        spec.change(
            "nodes", "node-0", lambda node: node["metadata"]["labels"].update({key: "blue"})
        )
        await spec.until(lambda: on_nodes(spec) == ["node-0"])
        green = {key: "green"}
        spec.change("nodes", "node-0", lambda node: node["metadata"]["labels"].update(green))
        await spec.until(lambda: not spec.pods())
        if "nodeSelector" in spec_of_pods:
            body = {"spec": {"template": {"spec": {"nodeSelector": green}}}}
            spec.patch("daemonsets", "ds", body)
            await spec.until(lambda: on_nodes(spec) == ["node-0"])
        spec.change("nodes", "node-0", lambda node: node["metadata"]["labels"].pop(key))
        await spec.until(lambda: not spec.pods())

    return steps


def _updates(kind: str) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        spec.create("daemonsets", daemon_set("ds", updateStrategy={"type": kind}))
        await spec.until(lambda: len(on_nodes(spec)) == 2)
        (first,) = spec.list("controllerrevisions")
        mark = first["metadata"]["labels"][HASH]
        assert first["revision"] == 1
        assert {each["metadata"]["labels"][HASH] for each in spec.pods()} == {mark}
        containers = [{"name": "app", "image": NEW}]
        spec.patch("daemonsets", "ds", {"spec": {"template": {"spec": {"containers": containers}}}})
        await spec.until(lambda: len(spec.list("controllerrevisions")) == 2)
        if kind == "OnDelete":
            await spec.sleep(10)
            assert {each["spec"]["containers"][0]["image"] for each in spec.pods()} == {OLD}
            assert {each["metadata"]["labels"][HASH] for each in spec.pods()} == {mark}
        else:
            seen: list[int] = []

            def updated() -> bool:
                seen.append(len(on_nodes(spec)))
                images = [each["spec"]["containers"][0]["image"] for each in spec.running()]
                return images == [NEW, NEW]

            await spec.until(updated, every=0.1)
            assert min(seen) == 1, "one at a time"
        (current,) = [r for r in spec.list("controllerrevisions") if _matches(spec, "ds", r)]
        assert current["revision"] == 2
        assert current["metadata"]["labels"][HASH] != mark

    return steps


async def _rolls_back(spec: Spec) -> None:
    spec.create("daemonsets", daemon_set("ds"))
    await spec.until(lambda: len(on_nodes(spec)) == 2)

    def image(name: str) -> None:
        def change(found: Json) -> None:
            found["spec"]["template"]["spec"]["containers"][0]["image"] = name

        spec.change("daemonsets", "ds", change)

    image("foo:non-existent")
    await spec.until(
        lambda: any(p["spec"]["containers"][0]["image"] == "foo:non-existent" for p in spec.pods())
    )
    kept = [
        p["metadata"]["name"] for p in spec.pods() if p["spec"]["containers"][0]["image"] == OLD
    ]
    assert len(kept) == 1
    image(OLD)
    await spec.until(lambda: len(on_nodes(spec)) == 2)
    assert kept[0] in {p["metadata"]["name"] for p in spec.pods()}
    assert {p["spec"]["containers"][0]["image"] for p in spec.pods()} == {OLD}


async def _surges(spec: Spec) -> None:
    """New pods are created before the old ones are deleted."""
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    spec.create("daemonsets", daemon_set("ds", updateStrategy=strategy))
    await spec.until(lambda: len(on_nodes(spec)) == 2)
    containers = [{"name": "app", "image": NEW}]
    spec.patch("daemonsets", "ds", {"spec": {"template": {"spec": {"containers": containers}}}})
    counts: list[tuple[int, int]] = []

    def done() -> bool:
        alive = [p for p in spec.pods() if "deletionTimestamp" not in p["metadata"]]
        counts.append((len(alive), len({p["spec"].get("nodeName") for p in spec.running()})))
        return [p["spec"]["containers"][0]["image"] for p in spec.pods()] == [NEW, NEW]

    await spec.until(done, every=0.05)
    assert max(all_of_them for all_of_them, _ in counts) == 3
    assert min(nodes for _, nodes in counts) == 2, "every node has a pod that works at all times"
    held = spec.get("daemonsets", "ds")["status"]
    assert held["updatedNumberScheduled"] == held["numberAvailable"] == 2


async def _daemon_collection(spec: Spec) -> None:
    spec.create("daemonsets", daemon_set("ds"))
    await spec.until(lambda: len(on_nodes(spec)) == 2)
    assert len(spec.list("daemonsets", "daemonset-name=ds", everywhere=True)) >= 1
    spec.delete_all("daemonsets", "daemonset-name=ds")
    await spec.until(lambda: not spec.list("daemonsets", "daemonset-name=ds"))


async def _daemon_status(spec: Spec) -> None:
    spec.create("daemonsets", daemon_set("ds"))
    await spec.until(lambda: len(on_nodes(spec)) == 2)
    held = spec.get("daemonsets", "ds", "status")
    custom = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "here"}
    held["status"].setdefault("conditions", []).append(custom)
    assert condition_of(spec.update("daemonsets", held, "status"), "StatusUpdate") == "True"
    body = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
    patched = spec.patch("daemonsets", "ds", body, "status")
    assert condition_of(patched, "StatusPatched") == "True"


async def _are_sent_back(spec: Spec) -> None:
    """A typed client sends back the object that it received, with empty absent fields."""
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": storage}]
    spec.create("statefulsets", stateful_set("x", 0, volumeClaimTemplates=claims))

    def resend(found: Json) -> None:
        found["spec"]["volumeClaimTemplates"][0] |= {"status": {}}
        found["spec"]["selector"]["matchExpressions"] = []
        found["spec"]["template"]["spec"]["affinity"] = None

    spec.change("statefulsets", "x", resend)

    def grow(found: Json) -> None:
        found["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = "2Gi"

    with pytest.raises(RefusedError, match="forbidden"):
        spec.change("statefulsets", "x", grow)


async def _keep_what_they_select(spec: Spec) -> None:
    for plural, made in (("daemonsets", daemon_set("x")), ("statefulsets", stateful_set("x", 0))):
        spec.create(plural, made)
        labels = {"another": "label"}

        def change(found: Json, labels: Json = labels) -> None:
            found["spec"]["selector"] = {"matchLabels": labels}
            found["spec"]["template"]["metadata"]["labels"] = labels

        with pytest.raises(RefusedError, match=r"immutable|forbidden"):
            spec.change(plural, "x", change)


COLOR = "daemonset-color"
REQUIRED = {"key": "daemonset-tint", "operator": "In", "values": ["blue"]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [REQUIRED]}]
        }
    }
}

SCENARIOS: dict[str, SpecSteps] = {
    "a StatefulSet is updated in phases": _phases,
    "a StatefulSet's pods are updated when they are deleted": _updates_when_deleted,
    "a StatefulSet has a scale": _set_scale,
    "StatefulSets are patched and deleted by label": _set_collection,
    "a StatefulSet's status is written by others": _set_status,
    "a StatefulSet recreates a pod that a node refuses": _recreates_a_refused_pod,
    "a StatefulSet waits until pods have been ready for long": _waits_for_readiness,
    "a StatefulSet begins later": _begins_at(None, 2),
    "a StatefulSet begins later still": _begins_at(2, 4),
    "a StatefulSet begins earlier": _begins_at(3, 2),
    "a StatefulSet begins at the beginning": _begins_at(3, None),
    "ControllerRevisions are managed": _revisions_live,
    "a DaemonSet runs everywhere and replaces what goes or fails": _runs_everywhere,
    "a DaemonSet follows a selector": _follows_a_label(COLOR, {"nodeSelector": {COLOR: "blue"}}),
    "a DaemonSet follows an affinity": _follows_a_label("daemonset-tint", {"affinity": AFFINITY}),
    "a DaemonSet updates its pods": _updates("RollingUpdate"),
    "a DaemonSet leaves its pods alone": _updates("OnDelete"),
    "a DaemonSet rolls back without restarts": _rolls_back,
    "a DaemonSet surges": _surges,
    "DaemonSets are deleted by label": _daemon_collection,
    "a DaemonSet's status is written by others": _daemon_status,
    "selectors stay": _keep_what_they_select,
    "what typed clients send back is taken": _are_sent_back,
}


@cache
def played() -> dict[str, BaseException | None]:
    return play(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_stateful_and_daemon_sets(scenario: str) -> None:
    if (error := played()[scenario]) is not None:
        raise error
