"""The behavior of a pod's containers: no container really runs, so it is predicted.

Annotations of the pod set it:

| annotation `kubesched.io/...` | value | meaning |
|---|---|---|
| `start-delay` | duration | from binding to running, as for a large image |
| `run-duration` | duration | the pod ends after it, with `exit-code` or 0 |
| `fail-after` | duration | the containers end with code 1, or `exit-code`; restart policies apply |
| `exit-code` | number | the code with which containers end |
| `ready-delay` | duration or `never` | from running to ready |
| `image-pull` | `fail` | the image cannot be pulled, and the pod stays Pending |
| `stop-delay` | duration | how long the containers take to end when the pod is deleted |

If annotations are absent, rules from a file apply (`behavior_rules.py`), then literal
commands, readiness probes and preStop hooks of the containers. A duration is `90s`, `1h30m`, or a
number of seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from kubesched.api import Pod
from kubesched.api.pod import Container
from kubesched.cluster.nodes.container_commands import (
    CommandOutcome,
    literal_outcome,
    literal_termination,
)
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.go_format import parse_duration

__all__ = [
    "DEFAULT_RUN_NS",
    "NEVER",
    "PREFIX",
    "RUN_DURATION",
    "STOPPED",
    "Behavior",
    "behavior_of",
    "duration_ns",
    "endless_behavior_of",
    "run_duration_ns",
]

PREFIX = "kubesched.io/"
RUN_DURATION = PREFIX + "run-duration"
# An annotation of a node whose kubelet is not running.
STOPPED = PREFIX + "stopped"
NEVER = "never"

# How long a pod of a Job runs without a given duration: containers here do not end by themselves.
DEFAULT_RUN_NS = 5 * SECOND

_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_NO_SUCH_IMAGE = re.compile(
    r"^invalid\.|:404$|non-?existent|(does-?nt|does-not|doesnt)-exist", re.IGNORECASE
)
_PAUSE = re.compile(r"(^|/)pause(:|@|$)")


class Behavior(msgspec.Struct, frozen=True):
    """What the containers of a pod are going to do. None: the kubelet's default applies."""

    start_delay_ns: int | None = None
    stop_delay_ns: int | None = None
    ready_delay_ns: int | None = 0  # None: never ready
    pulls_image: bool = True
    # Whether the pod finishes when its containers end, whatever its restart policy.
    ends_pod: bool = False
    outcomes: tuple[CommandOutcome, ...] = ()  # one per container
    # One per init container, in order. Those without a literal command end at once.
    init_outcomes: tuple[CommandOutcome, ...] = ()


def duration_ns(text: str) -> int | None:
    """Parse a duration from an annotation; None if it is empty or invalid."""
    if not text:
        return None
    try:
        if _SECONDS.fullmatch(text):
            return round(float(text) * SECOND)
        return parse_duration(text)
    except ValueError:
        return None


def run_duration_ns(pod: Pod) -> int | None:
    """Return the pod's `run-duration`; None if it has none or an invalid one."""
    return duration_ns(pod.metadata.annotations.get(RUN_DURATION, ""))


def behavior_of(pod: Pod, from_rules: Callable[[Pod], Mapping[str, str]] | None = None) -> Behavior:
    """Return the behavior of a pod, from its annotations, then the rules, then its spec."""
    if from_rules is None and (plain := _plain_behavior(pod)) is not None:
        return plain
    settings = {
        key.removeprefix(PREFIX): value
        for key, value in pod.metadata.annotations.items()
        if key.startswith(PREFIX)
    }
    if from_rules is not None:
        settings = {**from_rules(pod), **settings}
    containers = pod.spec.containers
    outcome, ends_pod = _annotated_outcome(settings)
    if outcome is not None:
        outcomes = tuple(outcome for _ in containers)
    else:
        outcomes = tuple(_outcome(container, pod) for container in containers)
    return Behavior(
        start_delay_ns=duration_ns(settings.get("start-delay", "")),
        stop_delay_ns=_stop_delay_ns(settings, containers),
        ready_delay_ns=_ready_delay_ns(settings, containers),
        pulls_image=settings.get("image-pull") != "fail"
        and all(_can_pull(container.image) for container in containers),
        ends_pod=ends_pod,
        outcomes=outcomes,
        init_outcomes=tuple(
            literal_outcome((*each.command, *each.args)) or CommandOutcome(0)
            for each in pod.spec.init_containers
            if each.restart_policy != "Always"
        ),
    )


def endless_behavior_of(pod: Pod) -> Behavior:
    """Return the behavior of a pod, except that its containers do not end by themselves."""
    behavior = behavior_of(pod)
    outcomes = (CommandOutcome(None),) * len(behavior.outcomes)
    return msgspec.structs.replace(behavior, ends_pod=False, outcomes=outcomes)


def _plain_behavior(pod: Pod) -> Behavior | None:
    """Return the behavior of a pod whose only annotation of ours is `run-duration`.

    This is a shortcut of `behavior_of` for the pods of large simulations; None for other pods.
    """
    annotations, spec = pod.metadata.annotations, pod.spec
    if RUN_DURATION not in annotations or spec.init_containers:
        return None
    for key in annotations:
        if key.startswith(PREFIX) and key != RUN_DURATION:
            return None
    for each in spec.containers:
        if each.command or each.args or each.lifecycle or each.readiness_probe:
            return None
        if not _can_pull(each.image):
            return None
    run_ns = run_duration_ns(pod)
    if run_ns is None:
        return None
    return Behavior(ends_pod=True, outcomes=(CommandOutcome(run_ns),) * len(spec.containers))


@lru_cache(maxsize=1024)
def _can_pull(image: str) -> bool:
    """Whether an image can be pulled. Cached, since many pods have the same image."""
    return _NO_SUCH_IMAGE.search(image) is None


def _annotated_outcome(settings: Mapping[str, str]) -> tuple[CommandOutcome | None, bool]:
    """Return the outcome that the settings give, if any, and whether it ends the pod."""
    text = settings.get("exit-code", "")
    code = int(text) if text.isdecimal() else None
    if (after_ns := duration_ns(settings.get("fail-after", ""))) is not None:
        return CommandOutcome(after_ns, 1 if code is None else code), False
    if (run_ns := duration_ns(settings.get("run-duration", ""))) is not None:
        return CommandOutcome(run_ns, code or 0), True
    return None, False


def _outcome(container: Container, pod: Pod) -> CommandOutcome:
    literal = literal_outcome((*container.command, *container.args))
    if literal is not None:
        return literal
    if _is_of_job(pod) and not _is_pause(container):
        return CommandOutcome(DEFAULT_RUN_NS)
    return CommandOutcome(None)


def _is_of_job(pod: Pod) -> bool:
    return any(owner.controller and owner.kind == "Job" for owner in pod.metadata.owner_references)


def _is_pause(container: Container) -> bool:
    return bool(_PAUSE.search(container.image)) or "pause" in container.args


def _ready_delay_ns(settings: Mapping[str, str], containers: tuple[Container, ...]) -> int | None:
    text = settings.get("ready-delay", "")
    if text == NEVER:
        return None
    if (set_ns := duration_ns(text)) is not None:
        return set_ns
    delay = 0
    for container in containers:
        probe = container.readiness_probe
        if probe is None:
            continue
        if probe.exec is not None:
            answer = literal_outcome(probe.exec.command)
            if answer is not None and answer.exit_code:
                return None
        delay = max(delay, probe.initial_delay_seconds)
    return delay * SECOND


def _stop_delay_ns(settings: Mapping[str, str], containers: tuple[Container, ...]) -> int | None:
    if (set_ns := duration_ns(settings.get("stop-delay", ""))) is not None:
        return set_ns
    slowest = None
    for container in containers:
        end = literal_termination((*container.command, *container.args))
        if end is not None and end.duration_ns is not None:
            slowest = max(slowest or 0, end.duration_ns)
        hook = None if container.lifecycle is None else container.lifecycle.pre_stop
        if hook is None:
            continue
        taken_ns = 0
        if hook.sleep is not None:
            taken_ns = hook.sleep.seconds * SECOND
        elif hook.exec is not None and (done := literal_outcome(hook.exec.command)) is not None:
            taken_ns = done.duration_ns or 0
        slowest = max(slowest or 0, taken_ns)
    return slowest
