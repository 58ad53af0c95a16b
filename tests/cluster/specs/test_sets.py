"""Specs of ReplicaSets, ReplicationControllers and Deployments."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.cluster.specs.spec_runner import Json, Spec, SpecSteps, condition_of, play, pod

IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.59"
OTHER = "registry.k8s.io/e2e-test-images/nginx:1.15"
REVISION = "deployment.kubernetes.io/revision"


def owner(name: str, replicas: int, image: str = IMAGE, **spec: Any) -> Json:
    labels = {"name": name, "pod": "httpd"}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "httpd", "image": image}],
        },
    }
    wanted = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "labels": labels}, "spec": {**wanted, **spec}}


def controller(name: str, replicas: int, image: str = IMAGE) -> Json:
    made = owner(name, replicas, image)
    made["spec"]["selector"] = {"name": name}
    return made


def status(spec: Spec, plural: str, name: str) -> Json:
    return spec.get(plural, name)["status"]


def _ready(spec: Spec, plural: str, name: str, count: int) -> bool:
    held = spec.get(plural, name)["status"]
    return bool(held.get("readyReplicas", 0) == count == held.get("availableReplicas", 0))


def _scaled(plural: str) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        spec.create(plural, controller("s", 1) if _is_rc(plural) else owner("s", 1))
        await spec.until(lambda: _ready(spec, plural, "s", 1))
        scale = spec.get(plural, "s", "scale")
        assert scale["kind"] == "Scale"
        assert scale["spec"] == {"replicas": 1}
        assert scale["status"]["replicas"] == 1
        scale["metadata"]["resourceVersion"] = ""
        scale["spec"]["replicas"] = 2
        updated = spec.update(plural, scale, "scale")
        assert updated["spec"]["replicas"] == 2
        assert spec.get(plural, "s")["spec"]["replicas"] == 2
        body = {"spec": {"replicas": 4}}
        spec.patch(plural, "s", body, "scale", kind="strategic")
        assert spec.get(plural, "s")["spec"]["replicas"] == 4
        await spec.until(lambda: _ready(spec, plural, "s", 4))

    return steps


def _is_rc(plural: str) -> bool:
    return plural == "replicationcontrollers"


def _adopts(plural: str) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        spec.create("pods", pod("one", labels={"name": "a", "pod": "httpd"}))
        await spec.until(lambda: spec.running())
        spec.create(plural, controller("a", 1) if _is_rc(plural) else owner("a", 1))
        owners = await spec.until(
            lambda: spec.get("pods", "one")["metadata"].get("ownerReferences")
        )
        assert [each["name"] for each in owners] == ["a"]
        assert len(spec.pods()) == 1

        def relabel(found: Json) -> None:
            found["metadata"]["labels"] = {"name": "not-matching"}

        spec.change("pods", "one", relabel)
        await spec.until(lambda: "ownerReferences" not in spec.get("pods", "one")["metadata"])
        await spec.until(lambda: len(spec.pods()) == 2)

    return steps


def _meets_a_quota(plural: str) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        quota = {"metadata": {"name": "condition-test"}, "spec": {"hard": {"pods": "2"}}}
        spec.create("resourcequotas", quota)
        await spec.until(
            lambda: (
                spec.get("resourcequotas", "condition-test")
                .get("status", {})
                .get("hard", {})
                .get("pods")
            )
        )
        spec.create(plural, controller("q", 3) if _is_rc(plural) else owner("q", 3))
        held = await spec.until(
            lambda: [
                each
                for each in status(spec, plural, "q").get("conditions", ())
                if each["type"] == "ReplicaFailure"
            ]
        )
        assert held[0]["reason"] == "FailedCreate"
        spec.change(plural, "q", lambda found: found["spec"].update(replicas=2))
        await spec.until(lambda: condition_of(spec.get(plural, "q"), "ReplicaFailure") is None)
        assert status(spec, plural, "q")["observedGeneration"] == 2

    return steps


def _lists_and_deletes(plural: str) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        for name in ("x", "y", "z"):
            made = owner(name, 1)
            made["metadata"]["labels"] = {"e2e": "collection"}
            spec.create(plural, made)
        await spec.until(lambda: len(spec.running()) == 3)
        assert len(spec.list(plural, "e2e=collection", everywhere=True)) == 3
        spec.delete_all(plural, "e2e=collection")
        await spec.until(lambda: not spec.list(plural, "e2e=collection"))
        await spec.until(lambda: not spec.pods())

    return steps


def _has_a_status(plural: str) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        spec.create(plural, owner("st", 1))
        await spec.until(lambda: _ready(spec, plural, "st", 1))
        held = spec.get(plural, "st", "status")
        watch = spec.watch(plural, held["metadata"]["resourceVersion"])
        custom = {
            "type": "StatusUpdate",
            "status": "True",
            "reason": "E2E",
            "message": "Set from e2e test",
        }
        held["status"].setdefault("conditions", []).append(custom)
        updated = spec.update(plural, held, "status")
        assert condition_of(updated, "StatusUpdate") == "True"
        body = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
        patched = spec.patch(plural, "st", body, "status", kind="merge")
        assert condition_of(patched, "StatusPatched") == "True"
        kinds = [
            {c["type"] for c in each["object"]["status"]["conditions"]} for each in watch.read()
        ]
        assert "StatusUpdate" in kinds[0]
        assert any("StatusPatched" in each for each in kinds)

    return steps


async def _replica_set_replaced_and_patched(spec: Spec) -> None:
    watch = spec.watch("replicasets")
    spec.create("replicasets", owner("r", 1))
    await spec.until(lambda: _ready(spec, "replicasets", "r", 1))
    spec.patch("replicasets", "r", {"spec": {"replicas": 2}}, "scale")
    await spec.until(lambda: _ready(spec, "replicasets", "r", 2))
    grace = {"spec": {"terminationGracePeriodSeconds": 0}}
    body = {
        "metadata": {"labels": {"test-rs": "patched"}},
        "spec": {"replicas": 3, "template": grace},
    }
    spec.patch("replicasets", "r", body)
    await spec.until(lambda: _ready(spec, "replicasets", "r", 3))
    seen = [each["object"] for each in watch.read() if each["type"] == "MODIFIED"]
    assert any(
        each["metadata"]["labels"].get("test-rs") == "patched"
        and each["status"]["readyReplicas"] == 3
        for each in seen
        if "readyReplicas" in each["status"]
    )


async def _life_of_a_controller(spec: Spec) -> None:
    made = controller("rc", 1)
    made["metadata"]["labels"] = {"test-rc-static": "true"}
    watch = spec.watch("replicationcontrollers", labels="test-rc-static=true")
    spec.create("replicationcontrollers", made)
    await spec.until(lambda: _ready(spec, "replicationcontrollers", "rc", 1))
    spec.patch("replicationcontrollers", "rc", {"metadata": {"labels": {"test-rc": "patched"}}})
    spec.patch("replicationcontrollers", "rc", {"status": {"readyReplicas": 0}}, "status")
    seen = [each["object"]["status"].get("readyReplicas", 0) for each in watch.read()]
    assert 0 in seen[seen.index(1) :]
    await spec.until(lambda: _ready(spec, "replicationcontrollers", "rc", 1))
    held = spec.get("replicationcontrollers", "rc", "status")
    assert held["status"]["replicas"] == 1
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 2}}
    spec.patch("replicationcontrollers", "rc", scale, "scale")
    await spec.until(lambda: _ready(spec, "replicationcontrollers", "rc", 2))

    def grow(found: Json) -> None:
        found["metadata"]["labels"]["deleted"] = "soon"
        found["spec"]["replicas"] = 3

    spec.change("replicationcontrollers", "rc", grow)
    await spec.until(lambda: _ready(spec, "replicationcontrollers", "rc", 3))
    assert len(spec.list("replicationcontrollers", "test-rc-static=true", everywhere=True)) == 1
    spec.delete_all("replicationcontrollers", "test-rc-static=true")
    assert watch.read()[-1]["type"] == "DELETED"


def _complete(spec: Spec, name: str, replicas: int) -> bool:
    held = spec.get("deployments", name)
    counts = held["status"]
    fields = ("replicas", "updatedReplicas", "availableReplicas")
    return (
        all(counts.get(field, 0) == replicas for field in fields)
        and counts["observedGeneration"] >= held["metadata"]["generation"]
    )


def _sets(spec: Spec) -> dict[str, int]:
    """How many pods each template is to have, by image."""
    return {
        each["spec"]["template"]["spec"]["containers"][0]["image"]: each["spec"]["replicas"]
        for each in spec.list("replicasets")
    }


async def _rolls_over_an_older_set(spec: Spec) -> None:
    spec.create("replicasets", owner("d", 1, OTHER))
    await spec.until(lambda: _ready(spec, "replicasets", "d", 1))
    note = {"metadata": {"annotations": {REVISION: "3546343826724305832"}}}
    spec.patch("replicasets", "d", note, kind="merge")
    spec.create("deployments", owner("d", 1))
    await spec.until(lambda: _complete(spec, "d", 1))
    assert spec.get("deployments", "d")["metadata"]["annotations"][REVISION] == (
        "3546343826724305833"
    )
    assert _sets(spec) == {OTHER: 0, IMAGE: 1}
    (old,) = [each for each in spec.list("replicasets") if each["metadata"]["name"] == "d"]
    assert old["metadata"]["ownerReferences"][0]["kind"] == "Deployment"


async def _recreates(spec: Spec) -> None:
    spec.create("deployments", owner("d", 1, strategy={"type": "Recreate"}))
    await spec.until(lambda: _complete(spec, "d", 1))
    assert spec.get("deployments", "d")["metadata"]["annotations"][REVISION] == "1"
    watch = spec.watch("pods", spec.send("GET", spec.path("pods"))["metadata"]["resourceVersion"])

    def roll(found: Json) -> None:
        found["spec"]["template"]["spec"]["containers"][0].update(name="httpd", image=OTHER)

    spec.change("deployments", "d", roll)
    await spec.until(
        lambda: spec.get("deployments", "d")["metadata"]["annotations"][REVISION] == "2"
    )
    await spec.until(lambda: _complete(spec, "d", 1))
    order = [
        (each["type"], each["object"]["spec"]["containers"][0]["image"]) for each in watch.read()
    ]
    assert order.index(("DELETED", IMAGE)) < order.index(("ADDED", OTHER))


async def _cleans_up(spec: Spec) -> None:
    spec.create("replicasets", owner("d", 1, OTHER))
    await spec.until(lambda: _ready(spec, "replicasets", "d", 1))
    spec.create("deployments", owner("d", 1, revisionHistoryLimit=0))
    await spec.until(lambda: _sets(spec) == {IMAGE: 1})


async def _rolls_over_while_rolling(spec: Spec) -> None:
    spec.create("replicasets", owner("d", 1, OTHER))
    await spec.until(lambda: _ready(spec, "replicasets", "d", 1))
    rolling = {"maxUnavailable": 0, "maxSurge": 1}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    # The first template cannot start; the second overtakes it.
    made = owner("d", 1, "foo:non-existent", strategy=strategy, minReadySeconds=10)
    spec.create("deployments", made)
    await spec.until(lambda: _sets(spec) == {OTHER: 1, "foo:non-existent": 1})

    def roll(found: Json) -> None:
        found["spec"]["template"]["spec"]["containers"][0]["image"] = IMAGE

    spec.change("deployments", "d", roll)
    await spec.until(lambda: _complete(spec, "d", 1), 120)
    assert _sets(spec) == {OTHER: 0, "foo:non-existent": 0, IMAGE: 1}


async def _scales_in_proportion(spec: Spec) -> None:
    rolling = {"maxSurge": 3, "maxUnavailable": 2}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    spec.create("deployments", owner("d", 10, strategy=strategy))
    await spec.until(lambda: _complete(spec, "d", 10))

    def roll(found: Json) -> None:
        found["spec"]["template"]["spec"]["containers"][0]["image"] = "webserver:404"

    spec.change("deployments", "d", roll)
    await spec.until(lambda: _sets(spec) == {IMAGE: 8, "webserver:404": 5})
    await spec.until(lambda: status(spec, "deployments", "d")["availableReplicas"] == 8)
    spec.change("deployments", "d", lambda found: found["spec"].update(replicas=30))
    await spec.until(lambda: _sets(spec) == {IMAGE: 20, "webserver:404": 13})
    for each in spec.list("replicasets"):
        notes = each["metadata"]["annotations"]
        assert notes["deployment.kubernetes.io/desired-replicas"] == "30"
        assert notes["deployment.kubernetes.io/max-replicas"] == "33"


async def _sets_are_orphaned_and_adopted(spec: Spec) -> None:
    made = spec.create("deployments", owner("d", 1))
    await spec.until(lambda: _complete(spec, "d", 1))
    (held,) = spec.list("replicasets")
    assert held["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    spec.delete("deployments", "d", propagationPolicy="Orphan")
    await spec.until(lambda: not spec.exists("deployments", "d"))
    await spec.until(lambda: "ownerReferences" not in spec.list("replicasets")[0]["metadata"])
    again = spec.create("deployments", owner("d", 1))
    await spec.until(lambda: _complete(spec, "d", 1))
    (adopted,) = spec.list("replicasets")
    assert adopted["metadata"]["uid"] == held["metadata"]["uid"]
    assert adopted["metadata"]["ownerReferences"][0]["uid"] == again["metadata"]["uid"]


async def _goes_with_all_it_has(spec: Spec) -> None:
    spec.create("deployments", owner("d", 1))
    await spec.until(lambda: _complete(spec, "d", 1))
    spec.delete("deployments", "d", propagationPolicy="Background")
    await spec.until(lambda: not spec.list("replicasets"))
    await spec.until(lambda: not spec.pods())


async def _iterates(spec: Spec) -> None:
    """Many changes in a row, of which the suite picks at random."""
    made = owner("d", 6, revisionHistoryLimit=2, progressDeadlineSeconds=30)
    spec.create("deployments", made)
    for number in range(6):
        environment = [{"name": "A", "value": str(number)}]

        def roll(found: Json, environment: Json = environment) -> None:
            found["spec"]["template"]["spec"]["containers"][0]["env"] = environment

        spec.change("deployments", "d", roll)
        if number == 1:
            for each in spec.pods()[:2]:
                spec.delete("pods", each["metadata"]["name"])
        if number == 2:
            spec.change("deployments", "d", lambda found: found["spec"].update(replicas=3))
            spec.change("deployments", "d", lambda found: found["spec"].update(paused=True))
            await spec.sleep(1)
            spec.change("deployments", "d", lambda found: found["spec"].update(paused=False))
        await spec.sleep(0.3)
    await spec.until(lambda: _complete(spec, "d", 3), 120)
    held = spec.get("deployments", "d")
    progress = [each for each in held["status"]["conditions"] if each["type"] == "Progressing"]
    assert progress[0]["reason"] == "NewReplicaSetAvailable"
    assert len(spec.list("replicasets")) <= 3


async def _life_of_a_deployment(spec: Spec) -> None:
    watch = spec.watch("deployments", labels="test-deployment-static=true")
    made = owner("d", 2)
    made["metadata"]["labels"] = {"test-deployment-static": "true"}
    spec.create("deployments", made)
    await spec.until(lambda: _complete(spec, "d", 2))
    containers = [{"name": "httpd", "image": OTHER}]
    body = {
        "metadata": {"labels": {"test-deployment": "patched"}},
        "spec": {"replicas": 3, "template": {"spec": {"containers": containers}}},
    }
    spec.patch("deployments", "d", body)
    await spec.until(lambda: _complete(spec, "d", 3))
    spec.patch("deployments", "d", {"status": {"readyReplicas": 0}}, "status")
    await spec.until(lambda: status(spec, "deployments", "d").get("readyReplicas") == 3)
    held = spec.get("deployments", "d", "status")
    assert held["metadata"]["uid"]
    spec.delete_all("deployments", "test-deployment-static=true")
    await spec.until(lambda: watch.read()[-1]["type"] == "DELETED")


async def _service_of_a_set(spec: Spec) -> None:
    """Where the pods of a service are, in both forms."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    body = {"selector": {"name": "web"}, "ports": ports}
    spec.create("services", {"metadata": {"name": "web"}, "spec": body})
    spec.create("replicasets", owner("web", 2))
    await spec.until(lambda: len(spec.running()) == 2)
    addresses = sorted(each["status"]["podIP"] for each in spec.pods())

    def older() -> list[str]:
        subsets = spec.get("endpoints", "web").get("subsets", [])
        return sorted(each["ip"] for part in subsets for each in part.get("addresses", ()))

    def newer() -> list[str]:
        (found,) = spec.list("endpointslices", "kubernetes.io/service-name=web")
        return sorted(each["addresses"][0] for each in found["endpoints"])

    await spec.until(lambda: older() == newer() == addresses)
    spec.change("replicasets", "web", lambda found: found["spec"].update(replicas=0))
    await spec.until(lambda: older() == newer() == [])
    spec.delete("services", "web")
    await spec.until(lambda: not spec.exists("endpoints", "web"))


SCENARIOS: dict[str, SpecSteps] = {
    "a service knows where its pods are": _service_of_a_set,
    "a ReplicaSet has a scale": _scaled("replicasets"),
    "a Deployment has a scale": _scaled("deployments"),
    "a ReplicationController has a scale": _scaled("replicationcontrollers"),
    "a ReplicaSet adopts and releases": _adopts("replicasets"),
    "a ReplicationController adopts and releases": _adopts("replicationcontrollers"),
    "a ReplicaSet tells of a quota": _meets_a_quota("replicasets"),
    "a ReplicationController tells of a quota": _meets_a_quota("replicationcontrollers"),
    "ReplicaSets are deleted by label": _lists_and_deletes("replicasets"),
    "a ReplicaSet's status is written by others": _has_a_status("replicasets"),
    "a Deployment's status is written by others": _has_a_status("deployments"),
    "a ReplicaSet is replaced and patched": _replica_set_replaced_and_patched,
    "the life of a ReplicationController": _life_of_a_controller,
    "a Deployment takes over an older ReplicaSet": _rolls_over_an_older_set,
    "a Deployment recreates its pods": _recreates,
    "a Deployment without history deletes old sets": _cleans_up,
    "a Deployment rolls over while it rolls": _rolls_over_while_rolling,
    "a Deployment scales in proportion": _scales_in_proportion,
    "a Deployment's sets are orphaned and adopted": _sets_are_orphaned_and_adopted,
    "a Deployment goes with all it has": _goes_with_all_it_has,
    "a Deployment that changes all the time settles": _iterates,
    "the life of a Deployment": _life_of_a_deployment,
}


@cache
def played() -> dict[str, BaseException | None]:
    return play(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_sets(scenario: str) -> None:
    if (error := played()[scenario]) is not None:
        raise error
