"""Specs of owners, their dependents, and the deletion of namespaces."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.cluster.specs.definitions import define
from tests.cluster.specs.spec_runner import Json, Spec, SpecSteps, condition_of, play, pod

PAUSE = {"name": "nginx", "image": "registry.k8s.io/pause:3.10"}


def controller(name: str, replicas: int, labels: Json) -> Json:
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [PAUSE]},
    }
    wanted = {"replicas": replicas, "selector": labels, "template": template}
    return {"metadata": {"name": name}, "spec": wanted}


def deployment(name: str) -> Json:
    labels = {"gctest": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [PAUSE]},
    }
    wanted = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": wanted}


async def _made(spec: Spec, name: str, replicas: int) -> Json:
    """A ReplicationController whose pods are all there."""
    made = spec.create("replicationcontrollers", controller(name, replicas, {"gctest": name}))
    await spec.until(
        lambda: spec.get("replicationcontrollers", name)["status"]["replicas"] == replicas
    )
    return made


def _delete(spec: Spec, plural: str, made: Json, **options: Any) -> None:
    uid = {"preconditions": {"uid": made["metadata"]["uid"]}}
    spec.delete(plural, made["metadata"]["name"], **uid, **options)


async def _pods_go(spec: Spec) -> None:
    made = await _made(spec, "rc", 2)
    _delete(spec, "replicationcontrollers", made, propagationPolicy="Background")
    await spec.until(lambda: not spec.pods() and not spec.list("replicationcontrollers"))


async def _pods_stay(spec: Spec) -> None:
    for number, options in enumerate(({"propagationPolicy": "Orphan"}, {})):
        made = await _made(spec, f"rc-{number}", 20)
        _delete(spec, "replicationcontrollers", made, **options)
        await spec.until(lambda: not spec.list("replicationcontrollers"))
        await spec.sleep(30)
        mine = spec.pods(f"gctest=rc-{number}")
        assert len(mine) == 20
        assert not any("ownerReferences" in each["metadata"] for each in mine)


async def _sets_go(spec: Spec) -> None:
    made = spec.create("deployments", deployment("d"))
    await spec.until(lambda: spec.list("replicasets"))
    _delete(spec, "deployments", made, propagationPolicy="Background")
    await spec.until(lambda: not spec.list("replicasets") and not spec.pods())


async def _sets_stay(spec: Spec) -> None:
    made = spec.create("deployments", deployment("d"))
    await spec.until(lambda: spec.list("replicasets"))
    [found] = spec.list("replicasets")
    await spec.until(
        lambda: spec.get("replicasets", found["metadata"]["name"])["status"].get("replicas") == 2
    )
    _delete(spec, "deployments", made, propagationPolicy="Orphan")
    await spec.until(lambda: not spec.list("deployments"))
    [left] = spec.list("replicasets")
    assert "ownerReferences" not in left["metadata"]
    assert len(spec.pods()) == 2


async def _waits_for_pods(spec: Spec) -> None:
    made = await _made(spec, "rc", 20)
    await spec.until(lambda: len(spec.running()) == 20)
    _delete(spec, "replicationcontrollers", made, propagationPolicy="Foreground")
    left = spec.get("replicationcontrollers", "rc")["metadata"]
    assert left["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in left
    await spec.until(lambda: not spec.exists("replicationcontrollers", "rc"))
    assert not spec.pods()


async def _another_owner_keeps(spec: Spec) -> None:
    going = await _made(spec, "simpletest-rc-to-be-deleted", 20)
    staying = spec.create(
        "replicationcontrollers", controller("simpletest-rc-to-stay", 0, {"another": "one"})
    )
    reference = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "name": "simpletest-rc-to-stay",
        "uid": staying["metadata"]["uid"],
    }
    names = sorted(each["metadata"]["name"] for each in spec.pods())[:10]
    for name in names:
        spec.patch("pods", name, {"metadata": {"ownerReferences": [reference]}})
    _delete(spec, "replicationcontrollers", going, propagationPolicy="Foreground")
    await spec.until(
        lambda: not spec.exists("replicationcontrollers", "simpletest-rc-to-be-deleted")
    )
    left = spec.pods()
    assert sorted(each["metadata"]["name"] for each in left) == names
    for each in left:
        assert "deletionTimestamp" not in each["metadata"]
        [owner] = each["metadata"]["ownerReferences"]
        assert owner["name"] == "simpletest-rc-to-stay"


async def _circles_do_not_block(spec: Spec) -> None:
    made = {name: spec.create("pods", pod(name)) for name in ("pod1", "pod2", "pod3")}
    for name, owner in (("pod1", "pod3"), ("pod2", "pod1"), ("pod3", "pod2")):
        reference = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": owner,
            "uid": made[owner]["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        patched = spec.patch("pods", name, {"metadata": {"ownerReferences": [reference]}})
        assert len(patched["metadata"]["ownerReferences"]) == 1
    uid = {"preconditions": {"uid": made["pod1"]["metadata"]["uid"]}}
    spec.delete("pods", "pod1", propagationPolicy="Foreground", **uid)
    await spec.until(lambda: not spec.pods(), 90)


async def _custom_owners(spec: Spec) -> None:
    defined = define(spec, namespaced=False)
    await spec.sleep(1)
    for policy, is_left in (("Background", False), ("Foreground", False), ("Orphan", True)):
        name = policy.lower()
        owner = defined.create(f"{name}-owner")
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        defined.create(f"{name}-dependent", metadata={"ownerReferences": [reference]})
        defined.delete(f"{name}-owner", propagationPolicy=policy)
        await spec.until(
            lambda n=name: f"{n}-owner" not in {each["metadata"]["name"] for each in defined.list()}
        )
        await spec.sleep(30)
        left = {each["metadata"]["name"] for each in defined.list()}
        assert (f"{name}-dependent" in left) == is_left, policy
    canary = next(each for each in defined.list() if each["metadata"]["name"].startswith("orphan"))
    assert "ownerReferences" not in canary["metadata"]


async def _cron_jobs_take_all(spec: Spec) -> None:
    container = {"name": "c", "image": "busybox", "command": ["sleep", "300"]}
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}
    job = {"spec": {"parallelism": 1, "completions": 1, "template": template}}
    wanted = {"schedule": "*/1 * * * ?", "jobTemplate": job}
    spec.create("cronjobs", {"metadata": {"name": "simple"}, "spec": wanted})
    await spec.until(lambda: spec.list("jobs"), 300)
    spec.delete("cronjobs", "simple", propagationPolicy="Background")
    await spec.until(lambda: not (spec.list("cronjobs") or spec.list("jobs") or spec.pods()), 120)


def namespace(spec: Spec, name: str) -> str:
    full = f"{spec.namespace}-{name}"
    spec.create("namespaces", {"metadata": {"name": full}})
    return full


async def _empties(spec: Spec) -> None:
    """A new namespace does not contain the objects of a deleted one with the same name."""
    name = namespace(spec, "nsdelete")
    inside = Spec(spec.service, spec.clock, name)
    await spec.until(lambda: inside.exists("serviceaccounts", "default"))
    inside.create("pods", pod("test-pod"))
    await spec.until(lambda: inside.running())
    ports = [{"port": 80, "targetPort": 80}]
    inside.create("services", {"metadata": {"name": "test-service"}, "spec": {"ports": ports}})
    spec.delete("namespaces", name)
    await spec.until(lambda: not spec.exists("namespaces", name), 90)
    namespace(spec, "nsdelete")
    assert not inside.exists("pods", "test-pod")
    assert not inside.exists("services", "test-service")


async def _goes_fast(spec: Spec) -> None:
    names = [namespace(spec, f"nslifetest-{number}") for number in range(100)]
    await spec.sleep(10)
    for name in names:
        spec.delete("namespaces", name)
    await spec.until(
        lambda: sum(each["metadata"]["name"] in names for each in spec.list("namespaces")) <= 10,
        150,
    )


async def _is_changed(spec: Spec) -> None:
    name = namespace(spec, "nspatch")
    before = spec.get("namespaces", name)["metadata"]["resourceVersion"]
    patched = spec.patch("namespaces", name, {"metadata": {"labels": {"testLabel": "testValue"}}})
    assert int(patched["metadata"]["resourceVersion"]) > int(before)
    assert spec.get("namespaces", name)["metadata"]["labels"]["testLabel"] == "testValue"
    assert spec.get("namespaces", name, "status")["status"]["phase"] == "Active"
    custom = {"type": "StatusPatch", "status": "True", "reason": "E2E", "message": "Patched"}
    body = {"metadata": {"annotations": {"e2e": name}}, "status": {"conditions": [custom]}}
    patched = spec.patch("namespaces", name, body, "status", kind="merge")
    assert patched["metadata"]["annotations"] == {"e2e": name}
    assert condition_of(patched, "StatusPatch") == "True"
    more = {**custom, "type": "StatusUpdate"}
    updated = spec.change(
        "namespaces", name, lambda it: it["status"]["conditions"].append(more), "status"
    )
    assert updated["status"]["conditions"][-1]["type"] == "StatusUpdate"
    updated = spec.change(
        "namespaces", name, lambda it: it["metadata"]["labels"].update({name: "updated"})
    )
    assert updated["metadata"]["labels"][name] == "updated"


async def _has_finalizers(spec: Spec) -> None:
    name, fake = namespace(spec, "e2e-ns"), "e2e.example.com/fakeFinalizer"
    updated = spec.change(
        "namespaces", name, lambda it: it["spec"]["finalizers"].append(fake), "finalize"
    )
    assert fake in updated["spec"]["finalizers"]
    updated = spec.change(
        "namespaces", name, lambda it: it["spec"]["finalizers"].remove(fake), "finalize"
    )
    assert updated["spec"]["finalizers"] == ["kubernetes"]


async def _pods_go_first(spec: Spec) -> None:
    name = namespace(spec, "ordered")
    inside = Spec(spec.service, spec.clock, name)
    await spec.until(lambda: inside.exists("serviceaccounts", "default"))
    made = pod("test-pod")
    made["metadata"]["finalizers"] = ["e2e.example.com/finalizer"]
    inside.create("pods", made)
    await spec.until(lambda: inside.running())
    inside.create("configmaps", {"metadata": {"name": "test-configmap"}, "data": {"k": "v"}})
    spec.delete("namespaces", name)

    def going() -> Json:
        return spec.get("namespaces", name)

    await spec.until(lambda: going()["status"]["phase"] == "Terminating")
    await spec.until(lambda: condition_of(going(), "NamespaceDeletionContentFailure"))
    await spec.sleep(40)
    assert inside.exists("configmaps", "test-configmap")
    assert "deletionTimestamp" in inside.get("pods", "test-pod")["metadata"]
    inside.change("pods", "test-pod", lambda it: it["metadata"].update(finalizers=[]))
    await spec.until(lambda: not inside.exists("pods", "test-pod"))
    await spec.until(lambda: not spec.exists("namespaces", name))


SCENARIOS: dict[str, SpecSteps] = {
    "pods go with their controller": _pods_go,
    "pods are orphaned": _pods_stay,
    "sets go with their deployment": _sets_go,
    "sets are orphaned": _sets_stay,
    "a controller waits for its pods": _waits_for_pods,
    "another owner keeps pods": _another_owner_keeps,
    "circles do not block": _circles_do_not_block,
    "custom resources own each other": _custom_owners,
    "cron jobs take all along": _cron_jobs_take_all,
    "a namespace is emptied": _empties,
    "namespaces go fast": _goes_fast,
    "a namespace is changed": _is_changed,
    "a namespace has finalizers": _has_finalizers,
    "pods go first": _pods_go_first,
}


@cache
def played() -> dict[str, BaseException | None]:
    return play(SCENARIOS, nodes=3)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_garbage(scenario: str) -> None:
    if (error := played()[scenario]) is not None:
        raise error
