"""A pod's status as a kubelet writes it, built from the pod's `PodRun`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Pod
from kubesched.api.pod import Container, PodCondition
from kubesched.api.time import format_time
from kubesched.cluster.nodes.pod_run import FINISHED, ContainerRun, PodRun

__all__ = ["needs_report", "status_of"]

Json = dict[str, Any]
# Status, reason and message of conditions, by type.
Conditions = Mapping[str, tuple[str, str, str]]

_NOT_STORED = PodCondition()
_PULL_FAILED = "ErrImagePull"
_CRASHED = "CrashLoopBackOff"
_TRUE = ("True", "", "")  # without reason and message
_READY: Conditions = {
    "PodScheduled": _TRUE,
    "PodReadyToStartContainers": _TRUE,
    "Initialized": _TRUE,
    "Ready": _TRUE,
    "ContainersReady": _TRUE,
}
_SUCCEEDED: Conditions = {
    "PodScheduled": _TRUE,
    "PodReadyToStartContainers": ("False", "", ""),
    "Initialized": ("True", "PodCompleted", ""),
    "Ready": ("False", "PodCompleted", ""),
    "ContainersReady": ("False", "PodCompleted", ""),
}
_FAILED: Conditions = {
    "PodScheduled": _TRUE,
    "PodReadyToStartContainers": ("False", "", ""),
    "Initialized": _TRUE,
    "Ready": ("False", "PodFailed", ""),
    "ContainersReady": ("False", "PodFailed", ""),
}


def needs_report(run: PodRun, now_ns: int) -> bool:
    """Whether the stored status of a pod differs from its state."""
    pod = run.pod
    if pod.status.phase in FINISHED:
        return False
    if pod.status.phase != run.phase:
        return True
    if run.phase == "Pending" and not run.cannot_start:
        return False
    if pod.status.observed_generation != pod.metadata.generation:
        return True
    stored = {each.type: each.status for each in pod.status.conditions}
    for kind, (status, _, _) in _conditions(run, now_ns).items():
        if stored.get(kind) != status:
            return True
    return _has_other_containers(run)


def _has_other_containers(run: PodRun) -> bool:
    """Whether the stored status of a container differs from its state."""
    stored = {each.name: each for each in run.pod.status.container_statuses}
    for container in run.containers:
        status = stored.get(container.name)
        if status is None or status.restart_count != container.restarts:
            return True
        if (status.state.running is not None) != container.is_running and not run.cannot_start:
            return True
    return False


def status_of(run: PodRun, now_ns: int, addresses: tuple[str, str]) -> Json:
    """Return a patch of the status. `addresses` are those of the node and the pod."""
    pod = run.pod
    status, generation = pod.status, pod.metadata.generation
    now = format_time(now_ns)
    stored = {each.type: each for each in status.conditions}
    conditions = []
    for kind, wanted in _conditions(run, now_ns).items():
        condition = _condition(kind, wanted, stored.get(kind), generation, now)
        if condition is not None:
            conditions.append(condition)
    is_ready = run.is_ready(now_ns)
    report: Json = {
        "phase": run.phase,
        "conditions": conditions,
        "containerStatuses": [
            _container_status(run, each, spec, is_ready=is_ready)
            for each, spec in zip(run.containers, pod.spec.containers, strict=True)
        ],
    }
    if not status.start_time:
        report["startTime"] = now
    if generation:
        report["observedGeneration"] = generation
    if run.reason:
        report |= {"reason": run.reason, "message": run.message}
    if pod.spec.init_containers:
        began = status.start_time or now
        report["initContainerStatuses"] = [
            _init_status(run, each, began) for each in pod.spec.init_containers
        ]
    if pod.spec.ephemeral_containers:
        report["ephemeralContainerStatuses"] = _ephemeral_statuses(pod, now)
    if not (status.host_ip and status.pod_ip):
        report |= _addresses(pod, addresses)
    return report


def _condition(
    kind: str,
    wanted: tuple[str, str, str],
    stored: PodCondition | None,
    generation: int | None,
    now: str,
) -> Json | None:
    """Return the patch of one condition; None if it has not changed."""
    status, reason, message = wanted
    condition: Json = {"type": kind, "status": status, "lastTransitionTime": now}
    if stored is None:
        stored = _NOT_STORED
    elif stored.status == status:
        has_generation = not generation or stored.observed_generation == generation
        if has_generation and (stored.reason or "", stored.message or "") == (reason, message):
            return None
        condition["lastTransitionTime"] = stored.last_transition_time or now
    # Null removes the value of an earlier report.
    if reason or stored.reason:
        condition["reason"] = reason or None
    if message or stored.message:
        condition["message"] = message or None
    if generation:
        condition["observedGeneration"] = generation
    return condition


def _addresses(pod: Pod, addresses: tuple[str, str]) -> Json:
    host_ip, pod_ip = addresses
    if pod.spec.host_network:
        pod_ip = host_ip
    host_ip, pod_ip = pod.status.host_ip or host_ip, pod.status.pod_ip or pod_ip
    return {
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
    }


def _conditions(run: PodRun, now_ns: int) -> Conditions:
    """Return the conditions that a kubelet manages."""
    if run.phase in FINISHED:
        return _FAILED if run.phase == "Failed" else _SUCCEEDED
    if run.init_failed:
        names = " ".join(each.name for each in run.pod.spec.init_containers)
        text = f"containers with incomplete status: [{names}]"
        initialized = ("False", "ContainersNotInitialized", text)
    else:
        initialized = _TRUE
    containers = ready = _TRUE
    if not run.is_ready(now_ns):
        names = " ".join([each.name for each in run.containers])
        text = f"containers with unready status: [{names}]"
        containers = ready = ("False", "ContainersNotReady", text)
    elif run.pod.spec.readiness_gates and (message := _unmet_gates(run.pod)):
        ready = ("False", "ReadinessGatesNotReady", message)
    elif initialized is _TRUE:
        return _READY
    return {
        "PodScheduled": _TRUE,
        "PodReadyToStartContainers": _TRUE,
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": containers,
    }


def _unmet_gates(pod: Pod) -> str:
    """Return the message about readiness gates that are not met; empty if all are."""
    statuses = {each.type: each.status for each in pod.status.conditions}
    texts = []
    for gate in pod.spec.readiness_gates:
        kind = gate.condition_type
        if kind not in statuses:
            texts.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif statuses[kind] != "True":
            texts.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {statuses[kind]}'
            )
    return ", ".join(texts)


def _container_status(run: PodRun, each: ContainerRun, spec: Container, *, is_ready: bool) -> Json:
    is_running = each.is_running
    status: Json = {
        "name": each.name,
        "image": each.image,
        "imageID": "",
        "ready": is_running and is_ready,
        "started": is_running,
        "restartCount": each.restarts,
        "state": _state(run, each, spec),
        "lastState": {},
    }
    if each.last_end_ns is not None:
        status["lastState"] = _terminated(
            each.last_start_ns, each.last_end_ns, each.outcome.exit_code
        )
    elif each.restart_at_ns is not None:
        status["lastState"] = _terminated(each.started_ns or 0, each.ended_ns or 0, each.exit_code)
    return status


def _ephemeral_statuses(pod: Pod, now: str) -> list[Json]:
    """Report that the containers that have been added to the pod run until it ends."""
    began = {
        each.name: each.state.running.started_at
        for each in pod.status.ephemeral_container_statuses
        if each.state.running is not None
    }
    return [
        {
            "name": each.name,
            "image": each.image,
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"running": {"startedAt": began.get(each.name) or now}},
            "lastState": {},
        }
        for each in pod.spec.ephemeral_containers
    ]


def _state(run: PodRun, each: ContainerRun, spec: Container) -> Json:
    if run.pull_failed:
        text = f'failed to pull and unpack image "{spec.image}": not found'
        return {"waiting": {"reason": _PULL_FAILED, "message": text}}
    if each.started_ns is None:
        if run.phase in FINISHED:
            return {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
        return {"waiting": {"reason": "PodInitializing"}}
    if each.is_running:
        return {"running": {"startedAt": format_time(each.started_ns)}}
    if each.restart_at_ns is not None and run.phase not in FINISHED:
        return {"waiting": {"reason": _CRASHED, "message": f"back-off restarting {each.name}"}}
    return _terminated(each.started_ns, each.ended_ns or 0, each.exit_code)


def _terminated(began_ns: int, ended_ns: int, exit_code: int) -> Json:
    return {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "startedAt": format_time(began_ns),
            "finishedAt": format_time(ended_ns),
        }
    }


def _init_status(run: PodRun, container: Container, began: str) -> Json:
    """Build the status of an init container: a sidecar runs, any other one has ended."""
    is_sidecar = container.restart_policy == "Always"
    state: Json
    if run.init_failed:
        state = {"waiting": {"reason": _CRASHED}}
    elif is_sidecar and run.phase == "Running":
        state = {"running": {"startedAt": began}}
    else:
        times = {"startedAt": began, "finishedAt": began}
        state = {"terminated": {"exitCode": 0, "reason": "Completed", **times}}
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": not run.init_failed,
        "started": is_sidecar and run.phase == "Running",
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }
