"""The events that a kubelet records about a pod, from its old and its new state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kubesched.api import Pod
from kubesched.cluster.nodes.pod_run import PodRun

__all__ = ["PodEvent", "PodEventSink", "events_of", "termination_events"]


class PodEvent(NamedTuple):
    """An event about a pod."""

    reason: str
    message: str
    warning: bool = False


class PodEventSink(Protocol):
    """Records an event about a pod, with the kubelet of its node as the reporter."""

    def __call__(self, pod: Pod, event: PodEvent) -> None: ...


def events_of(run: PodRun) -> Iterator[PodEvent]:
    """Yield the events since the last report of the pod."""
    pod = run.pod
    reported = {each.name: each for each in pod.status.container_statuses}
    if run.reason and not pod.status.reason:
        yield PodEvent(run.reason, run.message, warning=True)
    for container in run.containers:
        before = reported.get(container.name)
        if run.pull_failed:
            if before is None or before.image != container.image:
                text = f'Failed to pull image "{container.image}": not found'
                yield PodEvent("Failed", text, warning=True)
            continue
        if container.started_ns is None:
            continue
        is_first_start = before is None or (
            before.state.running is None and before.state.terminated is None
        )
        if is_first_start or (before is not None and before.restart_count < container.restarts):
            text = f'Container image "{container.image}" already present on machine'
            yield PodEvent("Pulled", text)
            yield PodEvent("Created", f"Created container: {container.name}")
            yield PodEvent("Started", f"Started container {container.name}")
        if container.restart_at_ns is not None:
            text = f"Back-off restarting failed container {container.name} in pod {_key(pod)}"
            yield PodEvent("BackOff", text, warning=True)


def termination_events(run: PodRun) -> Iterator[PodEvent]:
    """Yield the events about containers that end because their pod is deleted."""
    for container in run.containers:
        if container.is_running:
            yield PodEvent("Killing", f"Stopping container {container.name}")


def _key(pod: Pod) -> str:
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
