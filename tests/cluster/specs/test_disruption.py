"""Specs of PodDisruptionBudgets and evictions."""

from __future__ import annotations

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

LABELS = {"foo": "bar"}
IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.59"
UNREADY = {"httpGet": {"path": "/", "port": 1234}, "initialDelaySeconds": 600}


def budget(name: str = "foo", **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"selector": {"matchLabels": LABELS}, **spec},
    }


def replica_set(replicas: int, port: int | None = None, **container: Any) -> Json:
    ports = {} if port is None else {"ports": [{"containerPort": port, "hostPort": port}]}
    containers = [{"name": "donothing", "image": IMAGE, **ports, **container}]
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": containers}}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template}
    return {"metadata": {"name": "rs"}, "spec": spec}


def evict(spec: Spec, name: str) -> Json:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return spec.send("POST", spec.path("pods", name, "eviction"), body)


def refused(spec: Spec, name: str) -> Json:
    """Return the response to a refused eviction; clients read its cause."""
    with pytest.raises(RefusedError) as refusal:
        evict(spec, name)
    assert refusal.value.code == 429
    (cause,) = refusal.value.body["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert "retryAfterSeconds" not in refusal.value.body["details"]
    return cause


def may_evict(spec: Spec, name: str) -> bool:
    try:
        evict(spec, name)
    except RefusedError as refusal:
        if refusal.code != 429:
            raise
        return False
    return True


def allowed(spec: Spec, name: str = "foo") -> int:
    held = spec.get("poddisruptionbudgets", name)
    known = held["status"].get("observedGeneration", 0) == held["metadata"]["generation"]
    return int(held["status"]["disruptionsAllowed"]) if known else -1


async def _is_made(spec: Spec) -> None:
    created = spec.create("poddisruptionbudgets", budget(minAvailable="1%"))
    assert created["status"]["disruptionsAllowed"] == 0
    await spec.until(lambda: allowed(spec) == 0)
    spec.change("poddisruptionbudgets", "foo", lambda b: b["spec"].update(minAvailable="2%"))
    await spec.until(lambda: allowed(spec) == 0)
    body = {"spec": {"minAvailable": "3%"}}
    patched = spec.patch("poddisruptionbudgets", "foo", body)
    assert patched["spec"]["minAvailable"] == "3%"
    await spec.until(lambda: allowed(spec) == 0)
    spec.delete("poddisruptionbudgets", "foo")
    assert not spec.exists("poddisruptionbudgets", "foo")


async def _counts(spec: Spec) -> None:
    spec.create("poddisruptionbudgets", budget(minAvailable=1))
    for number in range(3):
        spec.create("pods", pod(f"p{number}", labels=LABELS))
    await spec.until(lambda: allowed(spec) == 2)
    held = spec.get("poddisruptionbudgets", "foo")["status"]
    assert (held["currentHealthy"], held["desiredHealthy"], held["expectedPods"]) == (3, 1, 3)
    assert condition_of({"status": held}, "DisruptionAllowed") == "True"


async def _ignores_unmanaged_pods(spec: Spec) -> None:
    spec.create("poddisruptionbudgets", budget(maxUnavailable=1))
    spec.create("pods", pod("p", labels=LABELS))
    await spec.until(lambda: spec.running())
    await spec.always(lambda: allowed(spec) in (-1, 0), 10)
    assert spec.get("poddisruptionbudgets", "foo")["status"]["expectedPods"] == 0
    found = [
        each
        for each in spec.get("poddisruptionbudgets", "foo")["status"]["conditions"]
        if each["type"] == "DisruptionAllowed"
    ]
    assert found[0]["status"] == "False"


async def _status_is_written(spec: Spec) -> None:
    spec.create("poddisruptionbudgets", budget(minAvailable=1))
    for number in range(2):
        spec.create("pods", pod(f"p{number}", labels=LABELS))
    await spec.until(lambda: allowed(spec) == 1)
    held = spec.get("poddisruptionbudgets", "foo")
    held["status"]["disruptedPods"] = {"p0": "2026-01-01T00:00:03Z"}
    updated = spec.update("poddisruptionbudgets", held, "status")
    assert list(updated["status"]["disruptedPods"]) == ["p0"]
    body = {"status": {"disruptedPods": {"p0": None}}}
    patched = spec.patch("poddisruptionbudgets", "foo", body, "status", kind="merge")
    assert not patched["status"].get("disruptedPods")


async def _lists_and_deletes(spec: Spec) -> None:
    for name in ("foo", "foo2"):
        spec.create("poddisruptionbudgets", budget(name, minAvailable=1))
    assert len(spec.list("poddisruptionbudgets", "foo=bar")) == 2
    assert len(spec.list("poddisruptionbudgets", "foo=bar", everywhere=True)) >= 2
    spec.delete_all("poddisruptionbudgets", "foo=bar")
    assert not spec.list("poddisruptionbudgets", "foo=bar")


async def _blocks_until_changed(spec: Spec) -> None:
    for number in range(3):
        spec.create("pods", pod(f"p{number}", labels=LABELS))
    await spec.until(lambda: len(spec.running()) == 3)
    spec.create("poddisruptionbudgets", budget(minAvailable=3))
    await spec.until(lambda: allowed(spec) == 0)
    refused(spec, "p0")
    spec.patch("poddisruptionbudgets", "foo", {"spec": {"minAvailable": 2}})
    await spec.until(lambda: allowed(spec) == 1)
    evict(spec, "p0")
    await spec.until(lambda: not spec.exists("pods", "p0"))
    # And back, by a maximum.
    spec.create("pods", pod("p0", labels=LABELS))
    await spec.until(lambda: len(spec.running()) == 3)
    body = {"spec": {"minAvailable": 3}}
    spec.patch("poddisruptionbudgets", "foo", body)
    await spec.until(lambda: allowed(spec) == 0)
    refused(spec, "p1")
    spec.delete("poddisruptionbudgets", "foo")
    evict(spec, "p1")


def _case(
    pods: int, replicas: int, denied: bool, port: int | None = None, **wanted: Any
) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        for number in range(pods):
            spec.create("pods", pod(f"p{number}", labels=LABELS))
        if replicas:
            spec.create("replicasets", replica_set(replicas, port))
        if wanted:
            spec.create("poddisruptionbudgets", budget(**wanted))
        running = [each for each in await spec.until(spec.running) if is_ready(each)]
        name = running[0]["metadata"]["name"]
        if denied:
            await spec.until(lambda: allowed(spec) >= 0)
            await spec.sleep(5)
            refused(spec, name)
        else:
            await spec.until(lambda: len(spec.running()) == pods + replicas)
            await spec.until(lambda: may_evict(spec, name))

    return steps


def _unhealthy(policy: str | None, ready: bool, goes: bool) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        given = {} if policy is None else {"unhealthyPodEvictionPolicy": policy}
        spec.create("poddisruptionbudgets", budget(minAvailable=1, **given))
        probe = {} if ready else {"readinessProbe": UNREADY}
        spec.create("replicasets", replica_set(3 if ready else 1, **probe))
        if ready:
            await spec.until(lambda: len(spec.running()) == 3 and allowed(spec) == 2)
        else:
            await spec.until(lambda: [p for p in spec.pods() if p["status"]["phase"] == "Running"])
            await spec.until(lambda: allowed(spec) == 0)
        name = spec.pods()[0]["metadata"]["name"]
        if goes:
            evict(spec, name)
            await spec.until(lambda: not spec.exists("pods", name))
        else:
            refused(spec, name)

    return steps


SCENARIOS: dict[str, SpecSteps] = {
    "a budget is created, updated, patched and deleted": _is_made,
    "a budget's status follows the pods": _counts,
    "pods without a controller do not count": _ignores_unmanaged_pods,
    "a budget's status can be written": _status_is_written,
    "budgets are listed and deleted by label": _lists_and_deletes,
    "an eviction is blocked until the budget is changed": _blocks_until_changed,
    "no budget": _case(1, 0, False),
    "too few pods": _case(2, 0, True, minAvailable=2),
    "enough pods": _case(3, 0, False, minAvailable=2),
    "enough pods of a set, by percentage": _case(0, 10, False, minAvailable="90%"),
    "too few pods of a set, by percentage": _case(0, 10, True, 5555, minAvailable="90%"),
    "one may be unavailable, by percentage": _case(0, 10, False, maxUnavailable="10%"),
    "none may be unavailable any more": _case(0, 10, True, 5556, maxUnavailable=1),
    "a ready pod goes": _unhealthy(None, True, True),
    "a ready pod goes, if the budget is healthy": _unhealthy("IfHealthyBudget", True, True),
    "a ready pod goes, always": _unhealthy("AlwaysAllow", True, True),
    "an unready pod stays": _unhealthy(None, False, False),
    "an unready pod stays, if the budget is not healthy": _unhealthy(
        "IfHealthyBudget", False, False
    ),
    "an unready pod goes, always": _unhealthy("AlwaysAllow", False, True),
}


@cache
def played() -> dict[str, BaseException | None]:
    return play(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_disruption(scenario: str) -> None:
    if (error := played()[scenario]) is not None:
        raise error
