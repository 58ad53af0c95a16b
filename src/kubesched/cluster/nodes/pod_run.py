"""One pod on its node, as a stand-in for a kubelet runs it: what has happened and what will.

Plain state. It is told of the pod and of the time, moves on to where it should be by then, and says
when it will move next. What it amounts to for the API is in `pod_status.py`.
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
TERMINATED = 143
"""The code of a container that ends because its pod is deleted."""
KILLED = 137

_FIRST_BACK_OFF_NS, _LAST_BACK_OFF_NS = 10 * SECOND, 5 * MINUTE
_RECOVERED_NS = 10 * MINUTE


class ContainerRun:
    """One container: running, ended, or waiting to be started again."""

    def __init__(self, name: str, image: str, outcome: CommandOutcome) -> None:
        self.name, self.image, self.outcome = name, image, outcome
        self.started_ns: int | None = None
        self.ended_ns: int | None = None
        self.exit_code = 0
        self.restarts = 0
        self.restart_at_ns: int | None = None
        self.last_start_ns = 0
        """When the run before this one began, if there was one."""
        self.last_end_ns: int | None = None
        self._backed_off = 0

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
        """At once for the first time, then after longer and longer pauses."""
        assert self.ended_ns is not None
        if self.ended_ns - (self.started_ns or 0) >= _RECOVERED_NS:
            self._backed_off = 0
        pause_ns = 0
        if self._backed_off:
            doublings = min(self._backed_off - 1, 10)
            pause_ns = min(_FIRST_BACK_OFF_NS << doublings, _LAST_BACK_OFF_NS)
        self._backed_off += 1
        self.restart_at_ns = self.ended_ns + pause_ns

    def next_ns(self) -> int | None:
        if self.is_running:
            duration_ns = self.outcome.duration_ns
            return None if duration_ns is None else (self.started_ns or 0) + duration_ns
        return self.restart_at_ns

    def take_over(self, status: ContainerStatus, now_ns: int) -> None:
        """Go on from what an earlier life of the kubelet reported."""
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
    """A pod that has a node."""

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
        self.removal_ns: int | None = None
        """When the containers have ended and the pod may go, once it is deleted."""
        self._stop_delay_ns = (
            stop_delay_ns if behavior.stop_delay_ns is None else behavior.stop_delay_ns
        )
        self.containers = [
            ContainerRun(container.name, container.image, outcome)
            for container, outcome in zip(pod.spec.containers, behavior.outcomes, strict=True)
        ]
        if self.phase == "Running":
            self._take_over(now_ns)

    def _take_over(self, now_ns: int) -> None:
        self.started_ns = _time(self.pod.status.start_time, now_ns)
        reported = {each.name: each for each in self.pod.status.container_statuses}
        for container in self.containers:
            if container.name in reported:
                container.take_over(reported[container.name], now_ns)
            else:
                container.started_ns = self.started_ns

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def is_held(self) -> bool:
        """Whether all that is left of the pod is an object that somebody else keeps."""
        metadata = self.pod.metadata
        return bool(
            metadata.deletion_timestamp is not None
            and metadata.deletion_grace_period_seconds == 0
            and metadata.finalizers
        )

    def observe(self, pod: Pod, now_ns: int) -> None:
        """Take in a newer version of the pod."""
        self.pod = pod
        if pod.status.phase in FINISHED:
            self.phase = pod.status.phase
        deleted = pod.metadata.deletion_timestamp
        if deleted is not None:
            deadline_ns = parse_time(deleted)
            wanted_ns = now_ns + self._stop_delay_ns
            if self.removal_ns is not None:
                # A second deletion may shorten the time, and never puts it off.
                wanted_ns = self.removal_ns
            self.removal_ns = min(deadline_ns, wanted_ns)

    def has_other_images(self, pod: Pod) -> bool:
        """Whether a newer version of the pod is to run something else."""
        if pod.spec is self.pod.spec:
            return False
        images = [each.image for each in self.containers]
        return images != [each.image for each in pod.spec.containers]

    def change_images(self, pod: Pod, behavior: Behavior, start_delay_ns: int, now_ns: int) -> None:
        """Begin again with containers whose image is another one; pull what could not be."""
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
        """Move on to this moment."""
        if self.phase in FINISHED or self.pod.metadata.deletion_timestamp is not None:
            return
        if self.phase == "Pending":
            if now_ns < self.start_due_ns or self.pull_failed or self.init_failed:
                return
            self._start(now_ns)
        if self.phase != "Running":
            return
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
        """End the pod from outside: its containers are killed."""
        self.phase, self.reason, self.message = "Failed", reason, message
        for container in self.containers:
            if container.is_running:
                container.end(now_ns, KILLED)

    def terminate(self, now_ns: int) -> None:
        """End the containers because the pod is deleted."""
        running = [each for each in self.containers if each.is_running]
        for container in running:
            container.end(now_ns, TERMINATED)
        if self.phase not in FINISHED:
            self.phase = "Failed" if running or self.phase == "Pending" else "Succeeded"

    def is_ready(self, now_ns: int) -> bool:
        """Whether the containers are ready; gates are another matter."""
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
        """When something will have happened next; None if nothing will."""
        if self.pod.metadata.deletion_timestamp is not None:
            return None if self.is_held else self.removal_ns
        if self.phase in FINISHED:
            return None
        if self.phase == "Pending":
            return None if self.pull_failed or self.init_failed else self.start_due_ns
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
