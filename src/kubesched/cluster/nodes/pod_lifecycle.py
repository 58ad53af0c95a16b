"""What becomes of a pod once it has a node, as a stand-in for a kubelet decides it.

A bound pod starts after a moment and then runs, for the time that its annotation
`kubesched.io/run-duration` gives (`90s`, `1h30m`, or seconds), else until it is deleted. A
pod that is being deleted ends and is removed. Plain state: it is told of pods and of the
time, and says which step is due for which pod.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from kubesched.api import Pod
from kubesched.api.time import format_time, parse_time
from kubesched.util.clock import SECOND
from kubesched.util.go_format import parse_duration
from kubesched.util.heap import KeyedHeap

__all__ = ["RUN_DURATION", "PodLifecycles", "Step", "finished_status", "started_status"]

RUN_DURATION = "kubesched.io/run-duration"

_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)

StepKind = Literal["start", "finish", "remove"]


class Step(msgspec.Struct, frozen=True):
    """The next thing to happen to a pod."""

    kind: StepKind
    pod: Pod
    due_ns: int

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid


class PodLifecycles:
    """The next step of every pod that has one."""

    def __init__(self, *, start_delay_ns: int, stop_delay_ns: int) -> None:
        self._start_delay_ns = start_delay_ns
        self._stop_delay_ns = stop_delay_ns
        self._steps: KeyedHeap[str, Step] = KeyedHeap(
            key=lambda step: step.uid, sort_key=lambda step: step.due_ns
        )
        self._taken: dict[str, StepKind] = {}
        """Steps handed out, until the pod shows that they were done."""

    def observe(self, pod: Pod, now_ns: int) -> None:
        """Take note of a pod as it is now."""
        uid = pod.metadata.uid
        step = self._next_step(pod, now_ns)
        if step is None:
            self.forget(uid)
            return
        if self._taken.get(uid) == step.kind:
            return
        self._taken.pop(uid, None)
        planned = self._steps.get(uid)
        if planned is not None and planned.kind == step.kind:
            # Another change to the pod does not put off what was to happen.
            step = Step(step.kind, pod, min(planned.due_ns, step.due_ns))
        self._steps.add(step)

    def forget(self, uid: str) -> None:
        """Drop a pod that is gone."""
        self._steps.delete(uid)
        self._taken.pop(uid, None)

    def keep_only(self, uids: set[str]) -> None:
        """Drop all pods but these."""
        known = {step.uid for step in self._steps} | set(self._taken)
        for uid in sorted(known - uids):
            self.forget(uid)

    def due(self, now_ns: int) -> list[Step]:
        """Hand out the steps whose time has come, earliest first."""
        steps = []
        while (step := self._steps.peek()) is not None and step.due_ns <= now_ns:
            self._steps.pop()
            self._taken[step.uid] = step.kind
            steps.append(step)
        return steps

    def next_due_ns(self) -> int | None:
        step = self._steps.peek()
        return None if step is None else step.due_ns

    def _next_step(self, pod: Pod, now_ns: int) -> Step | None:
        if not pod.spec.node_name:
            return None
        if pod.metadata.deletion_timestamp is not None:
            if pod.metadata.deletion_grace_period_seconds == 0 and pod.metadata.finalizers:
                return None  # its containers have ended; somebody else keeps the object
            deadline_ns = parse_time(pod.metadata.deletion_timestamp)
            return Step("remove", pod, min(deadline_ns, now_ns + self._stop_delay_ns))
        if pod.status.phase == "Pending":
            return Step("start", pod, now_ns + self._start_delay_ns)
        if pod.status.phase == "Running" and (duration_ns := run_duration_ns(pod)) is not None:
            began = pod.status.start_time
            began_ns = now_ns if began is None else parse_time(began)
            return Step("finish", pod, began_ns + duration_ns)
        return None


def run_duration_ns(pod: Pod) -> int | None:
    """How long the pod runs; None for ever. A duration that cannot be read counts as none."""
    text = pod.metadata.annotations.get(RUN_DURATION, "")
    try:
        if _SECONDS.fullmatch(text):
            return round(float(text) * SECOND)
        return parse_duration(text)
    except ValueError:
        return None


def started_status(pod: Pod, now_ns: int, host_ip: str, pod_ip: str) -> dict[str, Any]:
    """The status of a pod whose containers have just started, as a patch."""
    now = format_time(now_ns)
    waiting = [
        gate.condition_type
        for gate in pod.spec.readiness_gates
        if not any(
            condition.type == gate.condition_type and condition.status == "True"
            for condition in pod.status.conditions
        )
    ]
    status: dict[str, Any] = {
        "phase": "Running",
        "startTime": now,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "conditions": [
            _condition("PodReadyToStartContainers", True, now),
            _condition("Initialized", True, now),
            _condition("Ready", not waiting, now, "ReadinessGatesNotReady"),
            _condition("ContainersReady", True, now),
        ],
        "containerStatuses": [
            {
                "name": container.name,
                "image": container.image,
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
                "lastState": {},
            }
            for container in pod.spec.containers
        ],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _init_status(container.name, container.image, container.restart_policy, now)
            for container in pod.spec.init_containers
        ]
    return status


def _init_status(name: str, image: str, restart_policy: str | None, now: str) -> dict[str, Any]:
    """A sidecar runs beside the containers; any other init container has ended before them."""
    if restart_policy == "Always":
        state: dict[str, Any] = {"running": {"startedAt": now}}
    else:
        state = _ended(now, now)
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": True,
        "started": restart_policy == "Always",
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def finished_status(pod: Pod, now_ns: int) -> dict[str, Any]:
    """The status of a pod whose containers have all ended well, as a patch."""
    now = format_time(now_ns)
    return {
        "phase": "Succeeded",
        "conditions": [
            _condition("PodReadyToStartContainers", False, now),
            _condition("Ready", False, now, "PodCompleted"),
            _condition("ContainersReady", False, now, "PodCompleted"),
        ],
        "containerStatuses": [
            {
                "name": container.name,
                "image": container.image,
                "imageID": "",
                "ready": False,
                "started": False,
                "restartCount": 0,
                "state": _ended(pod.status.start_time or now, now),
                "lastState": {},
            }
            for container in pod.spec.containers
        ],
    }


def _ended(began: str, now: str) -> dict[str, Any]:
    return {
        "terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": began,
            "finishedAt": now,
        }
    }


def _condition(kind: str, holds: bool, now: str, reason: str = "") -> dict[str, Any]:
    condition: dict[str, Any] = {
        "type": kind,
        "status": "True" if holds else "False",
        "lastTransitionTime": now,
    }
    if not holds and reason:
        condition["reason"] = reason
    return condition
