"""The table of pods: ready containers, a one-word status, restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.http.tables.table import (
    AGE,
    NAME,
    NONE,
    Column,
    Layout,
    age,
    since,
    wide,
)

__all__ = ["PODS"]

Json = Mapping[str, Any]


def _cells(pod: Json, now_ns: int) -> Sequence[Any]:
    spec, status = pod.get("spec", {}), pod.get("status", {})
    containers = spec.get("containers", ())
    sidecars = {
        container["name"]
        for container in spec.get("initContainers", ())
        if container.get("restartPolicy") == "Always"
    }
    reason, ready, restarts = _summary(pod, sidecars, now_ns)
    gates = spec.get("readinessGates", ())
    conditions = {each.get("type"): each.get("status") for each in status.get("conditions", ())}
    met = sum(conditions.get(gate.get("conditionType")) == "True" for gate in gates)
    addresses = status.get("podIPs", ())
    return (
        pod["metadata"]["name"],
        f"{ready}/{len(containers) + len(sidecars)}",
        reason,
        restarts,
        age(pod, now_ns),
        (addresses[0].get("ip") if addresses else status.get("podIP")) or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{met}/{len(gates)}" if gates else NONE,
    )


def _summary(pod: Json, sidecars: set[str], now_ns: int) -> tuple[str, int, str]:
    """Return the one-word status of a pod, the number of ready containers, and the restarts."""
    status = pod.get("status", {})
    reason = status.get("reason") or status.get("phase", "")
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initial = status.get("initContainerStatuses", ())
    starting = _initializing(initial, sidecars, len(pod.get("spec", {}).get("initContainers", ())))
    counted = [each for each in initial if each.get("name") in sidecars]
    if starting is not None:
        reason, counted = starting, list(initial)
        ready = sum(_is_ready(each) for each in initial if each.get("name") in sidecars)
    else:
        running = list(status.get("containerStatuses", ()))
        ready = sum(_is_ready(each) for each in (*counted, *running))
        counted += running
        reason = _of_containers(running, reason, _is_pod_ready(status))
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return reason, ready, _restarts(counted, now_ns)


def _is_ready(container: Json) -> bool:
    return bool(container.get("ready")) and "running" in container.get("state", {})


def _is_pod_ready(status: Json) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions", ())
    )


def _initializing(statuses: Sequence[Json], sidecars: set[str], count: int) -> str | None:
    """Return the status of the init containers; None if they have completed."""
    for index, container in enumerate(statuses):
        state = container.get("state", {})
        ended = state.get("terminated")
        if ended is not None:
            if ended.get("exitCode", 0) == 0:
                continue
            return f"Init:{_ending(ended)}"
        if container.get("name") in sidecars and container.get("started"):
            continue
        waiting = state.get("waiting", {}).get("reason", "")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{count}"
    return None


def _of_containers(statuses: Sequence[Json], reason: str, pod_ready: bool) -> str:
    is_running = False
    for container in reversed(statuses):
        state = container.get("state", {})
        waiting, ended = state.get("waiting", {}), state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = _ending(ended)
        elif _is_ready(container):
            is_running = True
    # A running container determines the status, not a completed one.
    if reason == "Completed" and is_running:
        return "Running" if pod_ready else "NotReady"
    return reason


def _ending(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(statuses: Sequence[Json], now_ns: int) -> str:
    count = sum(each.get("restartCount", 0) for each in statuses)
    ends = [
        each["lastState"]["terminated"]["finishedAt"]
        for each in statuses
        if each.get("lastState", {}).get("terminated", {}).get("finishedAt")
    ]
    if not count or not ends:
        return str(count)
    return f"{count} ({since(max(ends, key=parse_time), now_ns)} ago)"


PODS = Layout(
    (
        NAME,
        Column("Ready"),
        Column("Status"),
        Column("Restarts"),
        AGE,
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ),
    _cells,
)
