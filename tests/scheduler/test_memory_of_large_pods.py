"""Memory of large pods is released when they are deleted, whatever part of them is large.

A user who may create pods can create and delete them continuously, each with other texts. Nothing
in the scheduler may grow with them (`api/sized_caches.py`).
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kubesched.framework import FitError
from kubesched.scheduler.cycles.attempt import Attempt
from tests.scheduler.hostile_object_harness import HostileObjectHarness, run_steps

Json = dict[str, Any]

ITEMS = 3_000
PODS = 4
# An item takes at least 60 bytes as a text alone, and is stored twice or more often: pods that stay
# take a megabyte and a half. Tables that have grown, and the log of the server, take half of that.
KEPT_BYTES = 900_000

HOSTNAME = "kubernetes.io/hostname"


def words(tag: str) -> list[str]:
    return [f"{tag}-{number}" for number in range(ITEMS)]


def pairs(tag: str) -> dict[str, str]:
    return {f"{word}-key": word for word in words(tag)}


def values(tag: str, key: str = HOSTNAME, operator: str = "NotIn") -> list[Json]:
    return [{"key": key, "operator": operator, "values": words(tag)}]


def node_affinity(rule: Json) -> Json:
    return {"spec": {"affinity": {"nodeAffinity": rule}}}


def pod_affinity(kind: str, tag: str) -> Json:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchExpressions": values(tag, "app")}}
    both = {
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
    }
    return {"spec": {"affinity": {kind: both}}}


def spread(tag: str, action: str) -> Json:
    constraint = {
        "maxSkew": 5,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": action,
        "labelSelector": {"matchExpressions": values(tag, "app")},
    }
    near = {"nodeSelectorTerms": [{"matchExpressions": values(tag)}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near}}
    return {"spec": {"topologySpreadConstraints": [constraint], "affinity": affinity}}


def each(field: str, item: Callable[[str], Json]) -> Callable[[str], Json]:
    return lambda tag: {"spec": {field: [item(word) for word in words(tag)]}}


LARGE: dict[str, Callable[[str], Json]] = {
    "labels": lambda tag: {"metadata": {"labels": pairs(tag)}},
    "annotations": lambda tag: {"metadata": {"annotations": pairs(tag)}},
    "owners": lambda tag: {
        "metadata": {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "K", "name": word, "uid": word} for word in words(tag)
            ]
        }
    },
    "a required node": lambda tag: node_affinity(
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": values(tag)}]
            }
        }
    ),
    "no node": lambda tag: node_affinity(
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": values(tag, operator="In")}]
            }
        }
    ),
    "a preferred node": lambda tag: node_affinity(
        {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": values(tag)}}
            ]
        }
    ),
    "node selector": lambda tag: {"spec": {"nodeSelector": pairs(tag)}},
    "affinity": lambda tag: pod_affinity("podAffinity", tag),
    "anti-affinity": lambda tag: pod_affinity("podAntiAffinity", tag),
    "a required spread": lambda tag: spread(tag, "DoNotSchedule"),
    "a preferred spread": lambda tag: spread(tag, "ScheduleAnyway"),
    "tolerations": each("tolerations", lambda word: {"key": word, "operator": "Exists"}),
    "containers": each(
        "containers",
        lambda word: {"name": word, "image": word, "resources": {"requests": {"cpu": "1m"}}},
    ),
    "claims of volumes": each(
        "volumes", lambda word: {"name": word, "persistentVolumeClaim": {"claimName": word}}
    ),
    "claims of devices": each(
        "resourceClaims", lambda word: {"name": word, "resourceClaimName": word}
    ),
    "gates": each("schedulingGates", lambda word: {"name": word}),
}


async def come_and_go(harness: HostileObjectHarness, lie: Callable[[str], Json]) -> None:
    """Create pods that live at the same time, one that is assigned among them; delete them."""
    names = [f"large{harness.ticket()}" for _ in range(PODS)]
    for number, name in enumerate(names):
        node = "n1" if number == 2 else ""
        await harness.add_pod(name, lie(f"{name}-{tag_of(harness)}"), node_name=node)
        await asyncio.sleep(2)
    await harness.add_node(f"late{harness.ticket()}", cpu="8", memory="16Gi")  # calls the hints
    await asyncio.sleep(2)
    for name in names:
        await harness.delete_pod(name)
        del harness.lies[name]
    # A cache with one entry is overwritten by the next pod.
    small = f"small{harness.ticket()}"
    await harness.add_pod(small, requests={"cpu": "1m"}, labels={"app": small})
    await asyncio.sleep(2)
    await harness.delete_pod(small)
    await asyncio.sleep(400)


def tag_of(harness: HostileObjectHarness) -> str:
    return f"t{harness.ticket()}"


@pytest.mark.parametrize("lie", LARGE.values(), ids=LARGE)
def test_no_part_of_a_large_pod_stays_in_memory(lie: Callable[[str], Json]) -> None:
    async def steps(harness: HostileObjectHarness) -> None:
        await come_and_go(harness, lie)
        gc.collect()
        tracemalloc.start()
        try:
            await come_and_go(harness, lie)
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept <= KEPT_BYTES, kept

    run_steps(steps)


LAST = 25_000  # items; a pod with them takes two megabytes or more


@pytest.mark.parametrize("kind", ["labels", "no node"])
def test_the_last_large_pod_does_not_stay_until_the_next_one(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steps(harness: HostileObjectHarness) -> None:
        await come_and_go(harness, LARGE[kind])
        monkeypatch.setattr(f"{__name__}.ITEMS", LAST)
        gc.collect()
        tracemalloc.start()
        try:
            await harness.add_pod("last", LARGE[kind]("last"))
            await asyncio.sleep(5)
            alive, _ = tracemalloc.get_traced_memory()
            await harness.delete_pod("last")
            del harness.lies["last"]
            await asyncio.sleep(40)
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert alive > 2_000_000
        assert kept <= KEPT_BYTES, kept

    run_steps(steps)


HOPELESS: dict[str, Json] = {
    "fits nowhere": node_affinity(
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": values("x", operator="In")}]
            }
        }
    ),
    "is beyond the limits": {"spec": {"nodeSelector": pairs("x")}},
    "has an error": {"spec": {"volumes": [{"name": "a", "ephemeral": {}}]}},
}


def attempts_in_memory() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, Attempt | FitError)]


@pytest.mark.parametrize("lie", HOPELESS.values(), ids=HOPELESS)
def test_a_failed_attempt_leaves_no_cycle(lie: Json) -> None:
    """The collector rarely examines all objects, so cycles would hold large pods for hours."""
    attempts: list[int] = []
    left: list[object] = []

    async def steps(harness: HostileObjectHarness) -> None:
        await harness.add_pod("p", lie)
        await asyncio.sleep(3)
        queued = harness.scheduler.queue.get_pod("p", "default")
        assert queued is not None
        attempts.append(queued.attempts)
        del queued
        await harness.delete_pod("p")
        await asyncio.sleep(3)
        left.extend(each for each in attempts_in_memory() if id(each) not in others)

    gc.collect()
    # Other tests have left objects. The list holds them, so that their ids stay theirs.
    earlier = attempts_in_memory()
    others = set(map(id, earlier))
    gc.disable()
    try:
        run_steps(steps)
    finally:
        gc.enable()
    assert attempts[0] > 0
    assert left == []
