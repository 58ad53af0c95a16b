"""What a kubelet tells people about a pod: events, from how the pod was and how it is now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kubesched.api import Pod
from kubesched.cluster.nodes.pod_run import PodRun

__all__ = ["PodEvent", "PodEventSink", "ending_events", "events_of"]


class PodEvent(NamedTuple):
    reason: str
    message: str
    warning: bool = False


class PodEventSink(Protocol):
    """Takes events about pods, in the name of the kubelet of their node."""

    def __call__(self, pod: Pod, event: PodEvent) -> None: ...


def events_of(run: PodRun) -> Iterator[PodEvent]:
    """What happened since the API was last told of the pod."""
    pod = run.pod
    known = {each.name: each for each in pod.status.container_statuses}
    if run.reason and not pod.status.reason:
        yield PodEvent(run.reason, run.message, warning=True)
    for container in run.containers:
        before = known.get(container.name)
        if run.pull_failed:
            if before is None or before.image != container.image:
                text = f'Failed to pull image "{container.image}": not found'
                yield PodEvent("Failed", text, warning=True)
            continue
        if container.started_ns is None:
            continue
        fresh = before is None or (before.state.running is None and before.state.terminated is None)
        if fresh or (before is not None and before.restart_count < container.restarts):
            text = f'Container image "{container.image}" already present on machine'
            yield PodEvent("Pulled", text)
            yield PodEvent("Created", f"Created container: {container.name}")
            yield PodEvent("Started", f"Started container {container.name}")
        if container.restart_at_ns is not None:
            text = f"Back-off restarting failed container {container.name} in pod {_key(pod)}"
            yield PodEvent("BackOff", text, warning=True)


def ending_events(run: PodRun) -> Iterator[PodEvent]:
    """What is said of containers that end because their pod is deleted."""
    for container in run.containers:
        if container.is_running:
            yield PodEvent("Killing", f"Stopping container {container.name}")


def _key(pod: Pod) -> str:
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
