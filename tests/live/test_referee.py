"""The referee detects each kind of violation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.referee import Referee

Json = dict[str, Any]
REPLICAS = frozenset({"replica-0", "replica-1"})


def pod(node: str) -> Json:
    return {"metadata": {"name": "p", "uid": "1"}, "spec": {"nodeName": node} if node else {}}


def device_claim(name: str, device: str = "d") -> Json:
    results = [{"driver": "x", "pool": "n", "device": device}] if device else []
    status = {"allocation": {"devices": {"results": results}}} if device else {}
    return {"metadata": {"name": name, "uid": name}, "status": status}


def volume(uid: str) -> Json:
    return {"metadata": {"name": "v"}, "spec": {"claimRef": {"uid": uid}} if uid else {}}


def volume_claim(name: str) -> Json:
    return {"metadata": {"name": name, "uid": name}, "spec": {"volumeName": "v"}}


def event(
    second: int, user: str, resource: str, *, holder: str = "", name: str = "p", code: int = 200
) -> Json:
    body = {"requestObject": {"spec": {"holderIdentity": holder}}} if holder else {}
    return {
        "stage": "ResponseComplete",
        "stageTimestamp": f"2026-01-01T00:00:{second:02}.000000Z",
        "verb": "update",
        "user": {"username": user},
        "objectRef": {"resource": resource, "name": name, "namespace": "kube-system"},
        "responseStatus": {"code": code},
        **body,
    }


def lease(second: int, holder: str, *, code: int = 200) -> Json:
    return event(
        second,
        holder.partition("_")[0],
        "leases",
        holder=holder,
        name="kube-scheduler",
        code=code,
    )


def test_a_pod_stays_on_its_node() -> None:
    referee = Referee()
    for node in ("", "a", "a"):
        referee.pod(pod(node))
    assert referee.violations == []
    referee.pod(pod("b"))
    assert referee.violations == ["pod p went from a to b"]


def test_a_device_is_allocated_to_one_claim() -> None:
    referee = Referee()
    referee.device_claim(device_claim("one"))
    referee.device_claim(device_claim("one"), is_deleted=True)
    referee.device_claim(device_claim("two"))
    referee.device_claim(device_claim("two", ""))
    referee.device_claim(device_claim("three"))
    assert referee.violations == []
    referee.device_claim(device_claim("four"))
    assert referee.violations == ["device x/n/d was given to four too"]


def test_a_volume_is_bound_to_one_claim_at_most() -> None:
    referee = Referee()
    for uid in ("", "1", "", "2"):
        referee.volume(volume(uid))
    assert referee.violations == []
    referee.volume(volume("3"))
    assert referee.violations == ["volume v went from one claim to another"]


def test_a_volume_is_bound_to_one_claim() -> None:
    referee = Referee()
    referee.volume_claim(volume_claim("a"))
    referee.volume_claim(volume_claim("a"), is_deleted=True)
    referee.volume_claim(volume_claim("b"))
    assert referee.violations == []
    referee.volume_claim(volume_claim("c"))
    assert referee.violations == ["volume v was bound to b and c"]


@pytest.mark.parametrize(
    ("events", "writes", "stray"),
    {
        "the holder writes": ([lease(1, "replica-0_x"), event(2, "replica-0", "pods")], 1, 0),
        "another one writes": ([lease(1, "replica-0_x"), event(2, "replica-1", "pods")], 1, 1),
        "the order is that of the times": (
            [event(2, "replica-0", "pods"), lease(1, "replica-0_x"), lease(3, "replica-1_y")],
            1,
            0,
        ),
        "a refused write does not count": (
            [lease(1, "replica-0_x"), event(2, "replica-1", "pods", code=409)],
            0,
            0,
        ),
        "a refused lease changes nothing": (
            [
                lease(1, "replica-0_x"),
                lease(2, "replica-1_y", code=409),
                event(3, "replica-1", "pods"),
            ],
            1,
            1,
        ),
        "events do not count": ([lease(1, "replica-0_x"), event(2, "replica-1", "events")], 0, 0),
    }.values(),
)
def test_writes_belong_to_the_holder_of_the_lease(
    events: list[Json], writes: int, stray: int
) -> None:
    referee = Referee()
    referee.audit(events, REPLICAS)
    assert (referee.writes, referee.stray_writes) == (writes, stray)
    assert len(referee.violations) == stray
