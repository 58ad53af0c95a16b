"""The progress of one pod on its node, as the stand-in for a kubelet runs it.

Plain state without I/O: `advance` changes the pod to its state at a given time, and `next_ns`
returns when its state changes next. `pod_status.py` builds the status from it.
"""

from __future__ import annotations

import msgspec

from kubesched.api import Pod
from kubesched.api.pod import ContainerStatus
from kubesched.api.time import parse_time
from kubesched.cluster.nodes.container_commands import CommandOutcome
from kubesched.cluster.nodes.pod_behavior import Behavior
from kubesched.foundation.util.clock import MINUTE, SECOND

__all__ = ["FINISHED", "ContainerRun", "PodRun"]

FINISHED = frozenset({"Succeeded", "Failed"})
# The exit code of a container that ends because its pod is deleted.
TERMINATED = 143
KILLED = 137

_FIRST_BACK_OFF_NS, _LAST_BACK_OFF_NS = 10 * SECOND, 5 * MINUTE
_RECOVERED_NS = 10 * MINUTE


class ContainerRun:
    """The state of one container: running, ended, or waiting for a restart."""

    def __init__(self, name: str, image: str, outcome: CommandOutcome) -> None:
        self.name, self.image, self.outcome = name, image, outcome
        self.started_ns: int | None = None
        self.ended_ns: int | None = None
        self.exit_code = 0
        self.restarts = 0
        self.restart_at_ns: int | None = None
        self.last_start_ns = 0  # the start of the previous run, if there was one
        self.last_end_ns: int | None = None
        self._back_offs = 0

    @property
    def is_running(self) -> bool:
        return self.started_ns is not None and self.ended_ns is None

    def start(self, now_ns: int) -> None:
        if self.ended_ns is not None:
            self.last_start_ns, self.last_end_ns = self.started_ns or 0, self.ended_ns
            self.restarts += 1
        self.started_ns, self.ended_ns, self.restart_at_ns = now_ns, None, None

    def end(self, now_ns: int, exit_code: int) -> None:
        self.ended_ns, self.exit_code = now_ns, exit_code

    def restart_later(self) -> None:
        """Schedule a restart: at once the first time, then with a growing backoff."""
        assert self.ended_ns is not None
        if self.ended_ns - (self.started_ns or 0) >= _RECOVERED_NS:
            self._back_offs = 0
        pause_ns = 0
        if self._back_offs:
            doublings = min(self._back_offs - 1, 10)
            pause_ns = min(_FIRST_BACK_OFF_NS << doublings, _LAST_BACK_OFF_NS)
        self._back_offs += 1
        self.restart_at_ns = self.ended_ns + pause_ns

    def next_ns(self) -> int | None:
        if self.is_running:
            duration_ns = self.outcome.duration_ns
            return None if duration_ns is None else (self.started_ns or 0) + duration_ns
        return self.restart_at_ns

    def resume_from(self, status: ContainerStatus, now_ns: int) -> None:
        """Continue from a status that was reported before a restart of this process."""
        self.restarts = status.restart_count
        state = status.state
        if state.running is not None:
            self.started_ns = _time(state.running.started_at, now_ns)
        elif state.terminated is not None:
            self.started_ns = _time(state.terminated.started_at, now_ns)
            self.end(_time(state.terminated.finished_at, now_ns), state.terminated.exit_code)
        elif state.waiting is not None:
            self.started_ns = self.restart_at_ns = now_ns
            self.end(now_ns, self.outcome.exit_code)


class PodRun:
    """The progress of a bound pod: its phase and its containers."""

    def __init__(
        self, pod: Pod, behavior: Behavior, start_delay_ns: int, stop_delay_ns: int, now_ns: int
    ) -> None:
        self.pod, self.behavior = pod, behavior
        self.phase = pod.status.phase or "Pending"
        self.reason = self.message = ""
        delay_ns = behavior.start_delay_ns
        self.start_due_ns = now_ns + (start_delay_ns if delay_ns is None else delay_ns)
        self.pull_failed = False
        self.init_failed = False
        self.started_ns: int | None = None
        # When the containers of a terminating pod have ended, so that it can be removed.
        self.removal_ns: int | None = None
        self._stop_delay_ns = (
            stop_delay_ns if behavior.stop_delay_ns is None else behavior.stop_delay_ns
        )
        self.containers = [
            ContainerRun(container.name, container.image, outcome)
            for container, outcome in zip(pod.spec.containers, behavior.outcomes, strict=True)
        ]
        if self.phase == "Running":
            self._resume(now_ns)

    def _resume(self, now_ns: int) -> None:
        self.started_ns = _time(self.pod.status.start_time, now_ns)
        reported = {each.name: each for each in self.pod.status.container_statuses}
        for container in self.containers:
            if container.name in reported:
                container.resume_from(reported[container.name], now_ns)
            else:
                container.started_ns = self.started_ns

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def is_held(self) -> bool:
        """Whether only finalizers prevent the deletion of the pod, after its grace period."""
        metadata = self.pod.metadata
        return bool(
            metadata.deletion_timestamp is not None
            and metadata.deletion_grace_period_seconds == 0
            and metadata.finalizers
        )

    def observe(self, pod: Pod, now_ns: int) -> None:
        """Update the pod to a newer version."""
        self.pod = pod
        if pod.status.phase in FINISHED:
            self.phase = pod.status.phase
        deleted = pod.metadata.deletion_timestamp
        if deleted is not None:
            deadline_ns = parse_time(deleted)
            stopped_ns = now_ns + self._stop_delay_ns
            if self.removal_ns is not None:
                # A second deletion can make the removal earlier, never later.
                stopped_ns = self.removal_ns
            self.removal_ns = min(deadline_ns, stopped_ns)

    def has_other_images(self, pod: Pod) -> bool:
        """Whether a newer version of the pod has other images."""
        if pod.spec is self.pod.spec:
            return False
        images = [each.image for each in self.containers]
        return images != [each.image for each in pod.spec.containers]

    def change_images(self, pod: Pod, behavior: Behavior, start_delay_ns: int, now_ns: int) -> None:
        """Restart containers whose image has changed, and retry a failed pull."""
        self.behavior = behavior
        if self.pull_failed and behavior.pulls_image:
            delay_ns = behavior.start_delay_ns
            self.start_due_ns = now_ns + (start_delay_ns if delay_ns is None else delay_ns)
            self.pull_failed = False
        for run, container, outcome in zip(
            self.containers, pod.spec.containers, behavior.outcomes, strict=True
        ):
            if run.image == container.image:
                continue
            run.image, run.outcome = container.image, outcome
            if run.is_running:
                run.end(now_ns, 0)
                run.start(now_ns)

    def advance(self, now_ns: int) -> None:
        """Move the pod on to its state at this time."""
        if self.pod.metadata.deletion_timestamp is not None:
            return
        if self.phase == "Pending" and not self.cannot_start and now_ns >= self.start_due_ns:
            self._start(now_ns)
        if self.phase == "Running":
            self._advance_containers(now_ns)

    @property
    def cannot_start(self) -> bool:
        """Whether an image pull or an init container has failed."""
        return self.pull_failed or self.init_failed

    def _advance_containers(self, now_ns: int) -> None:
        deadline_ns = self._deadline_ns()
        for container in self.containers:
            self._advance_container(container, now_ns)
        if deadline_ns is not None and deadline_ns <= now_ns:
            self.fail("DeadlineExceeded", "Pod was active on the node longer than the specified "
                      "deadline", now_ns)  # fmt: skip
        elif all(each.ended_ns is not None and each.restart_at_ns is None
                 for each in self.containers):  # fmt: skip
            failed = any(each.exit_code for each in self.containers)
            self.phase = "Failed" if failed else "Succeeded"

    def _start(self, now_ns: int) -> None:
        if not self.behavior.pulls_image:
            self.pull_failed = True
            return
        for outcome in self.behavior.init_outcomes:
            if outcome.exit_code:
                self.init_failed = True
                if self.pod.spec.restart_policy == "Never":
                    self.phase = "Failed"
                return
            if outcome.duration_ns is None:
                self.init_failed = True
                return
        wait_ns = sum(each.duration_ns or 0 for each in self.behavior.init_outcomes)
        if now_ns < self.start_due_ns + wait_ns:
            self.start_due_ns += wait_ns
            self.behavior = _without_init(self.behavior)
            return
        self.phase, self.started_ns = "Running", now_ns
        for container in self.containers:
            container.start(now_ns)

    def _advance_container(self, container: ContainerRun, now_ns: int) -> None:
        while (next_ns := container.next_ns()) is not None and next_ns <= now_ns:
            if not container.is_running:
                container.start(next_ns)
                continue
            container.end(next_ns, container.outcome.exit_code)
            if not self.behavior.ends_pod and self._restarts(container):
                container.restart_later()

    def _restarts(self, container: ContainerRun) -> bool:
        policy = self.pod.spec.restart_policy or "Always"
        return policy == "Always" or (policy == "OnFailure" and container.exit_code != 0)

    def fail(self, reason: str, message: str, now_ns: int) -> None:
        """Fail the pod: its containers are killed."""
        self.phase, self.reason, self.message = "Failed", reason, message
        for container in self.containers:
            if container.is_running:
                container.end(now_ns, KILLED)

    def terminate(self, now_ns: int) -> None:
        """End the containers of a deleted pod."""
        running = [each for each in self.containers if each.is_running]
        for container in running:
            container.end(now_ns, TERMINATED)
        if self.phase not in FINISHED:
            self.phase = "Failed" if running or self.phase == "Pending" else "Succeeded"

    def is_ready(self, now_ns: int) -> bool:
        """Whether all containers are ready, without regard to readiness gates."""
        delay_ns = self.behavior.ready_delay_ns
        if delay_ns is None or self.phase != "Running":
            return False
        for container in self.containers:
            began_ns = container.started_ns
            if began_ns is None or container.ended_ns is not None or began_ns + delay_ns > now_ns:
                return False
        return True

    def _ready_ns(self) -> int | None:
        delay_ns = self.behavior.ready_delay_ns
        if delay_ns is None or self.phase != "Running":
            return None
        began_ns = 0
        for container in self.containers:
            began_ns = max(began_ns, container.started_ns or 0)
        return began_ns + delay_ns

    def _deadline_ns(self) -> int | None:
        limit = self.pod.spec.active_deadline_seconds
        if limit is None or self.started_ns is None:
            return None
        return self.started_ns + limit * SECOND

    def next_ns(self, now_ns: int) -> int | None:
        """Return when the state changes next; None if it does not change without an event."""
        if self.pod.metadata.deletion_timestamp is not None:
            return None if self.is_held else self.removal_ns
        if self.phase in FINISHED:
            return None
        if self.phase == "Pending":
            return None if self.cannot_start else self.start_due_ns
        soonest_ns = self._deadline_ns()
        ready_ns = self._ready_ns()
        if ready_ns is not None and ready_ns > now_ns:
            soonest_ns = _sooner(soonest_ns, ready_ns)
        for container in self.containers:
            soonest_ns = _sooner(soonest_ns, container.next_ns())
        return soonest_ns


def _sooner(one_ns: int | None, other_ns: int | None) -> int | None:
    if one_ns is None or other_ns is None:
        return one_ns if other_ns is None else other_ns
    return min(one_ns, other_ns)


def _without_init(behavior: Behavior) -> Behavior:
    return msgspec.structs.replace(behavior, init_outcomes=())


def _time(text: str | None, otherwise_ns: int) -> int:
    return otherwise_ns if text is None else parse_time(text)
