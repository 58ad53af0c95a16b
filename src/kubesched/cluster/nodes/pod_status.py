"""A pod's status as a kubelet writes it, from how the pod is doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Pod
from kubesched.api.pod import Container, PodCondition
from kubesched.api.time import format_time
from kubesched.cluster.nodes.pod_run import FINISHED, ContainerRun, PodRun

__all__ = ["needs_report", "status_of"]

Json = dict[str, Any]
Conditions = Mapping[str, tuple[str, str, str]]
"""Status, reason and message of conditions, by type."""

_PULL_FAILED = "ErrImagePull"
_CRASHED = "CrashLoopBackOff"
_TRUE = ("True", "", "")
"""A condition that holds, of which there is nothing to say."""
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
    """Whether what the API says of a pod is not how it is."""
    pod = run.pod
    if pod.status.phase in FINISHED:
        return False
    if pod.status.phase != run.phase:
        return True
    if run.phase == "Pending" and not run.pull_failed and not run.init_failed:
        return False
    if pod.status.observed_generation != pod.metadata.generation:
        return True
    held = {each.type: each.status for each in pod.status.conditions}
    for kind, (status, _, _) in _conditions(run, now_ns).items():
        if held.get(kind) != status:
            return True
    reported = {each.name: each for each in pod.status.container_statuses}
    for container in run.containers:
        known = reported.get(container.name)
        if known is None or known.restart_count != container.restarts:
            return True
        if (known.state.running is not None) != container.is_running and not _waits(run):
            return True
    return False


def status_of(run: PodRun, now_ns: int, addresses: tuple[str, str]) -> Json:
    """What is to change in the status, as a patch. `addresses` are the node's and the pod's."""
    pod = run.pod
    status, generation = pod.status, pod.metadata.generation
    now = format_time(now_ns)
    held = {each.type: each for each in status.conditions}
    conditions = []
    for kind, said in _conditions(run, now_ns).items():
        condition = _condition(kind, said, held.get(kind), generation, now)
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
    if not (status.host_ip and status.pod_ip):
        report |= _addresses(pod, addresses)
    return report


def _condition(
    kind: str,
    said: tuple[str, str, str],
    held: PodCondition | None,
    generation: int | None,
    now: str,
) -> Json | None:
    """What is new about a condition, None if nothing is."""
    status, reason, message = said
    condition: Json = {"type": kind, "status": status, "lastTransitionTime": now}
    if held is None:
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
    else:
        before, text = held.reason or "", held.message or ""
        if held.status == status:
            if (
                before == reason
                and text == message
                and (not generation or held.observed_generation == generation)
            ):
                return None
            condition["lastTransitionTime"] = held.last_transition_time or now
        # Null takes away what an earlier report said.
        if reason or before:
            condition["reason"] = reason or None
        if message or text:
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


def _waits(run: PodRun) -> bool:
    return run.pull_failed or run.init_failed


def _conditions(run: PodRun, now_ns: int) -> Conditions:
    """The conditions that a kubelet keeps."""
    if run.phase in FINISHED:
        return _FAILED if run.phase == "Failed" else _SUCCEEDED
    if run.init_failed:
        begun = " ".join(each.name for each in run.pod.spec.init_containers)
        text = f"containers with incomplete status: [{begun}]"
        initialized = ("False", "ContainersNotInitialized", text)
    else:
        initialized = _TRUE
    containers = ready = _TRUE
    if not run.is_ready(now_ns):
        names = " ".join([each.name for each in run.containers])
        text = f"containers with unready status: [{names}]"
        containers = ready = ("False", "ContainersNotReady", text)
    elif run.pod.spec.readiness_gates and (waiting := _closed_gates(run.pod)):
        ready = ("False", "ReadinessGatesNotReady", waiting)
    elif initialized is _TRUE:
        return _READY
    return {
        "PodScheduled": _TRUE,
        "PodReadyToStartContainers": _TRUE,
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": containers,
    }


def _closed_gates(pod: Pod) -> str:
    held = {each.type: each.status for each in pod.status.conditions}
    texts = []
    for gate in pod.spec.readiness_gates:
        kind = gate.condition_type
        if kind not in held:
            texts.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif held[kind] != "True":
            texts.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {held[kind]}'
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
        status["lastState"] = _ended(each.last_start_ns, each.last_end_ns, each.outcome.exit_code)
    elif each.restart_at_ns is not None:
        status["lastState"] = _ended(each.started_ns or 0, each.ended_ns or 0, each.exit_code)
    return status


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
    return _ended(each.started_ns, each.ended_ns or 0, each.exit_code)


def _ended(began_ns: int, ended_ns: int, exit_code: int) -> Json:
    return {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "startedAt": format_time(began_ns),
            "finishedAt": format_time(ended_ns),
        }
    }


def _init_status(run: PodRun, container: Container, began: str) -> Json:
    """A sidecar runs beside the containers; any other init container has ended before them."""
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
