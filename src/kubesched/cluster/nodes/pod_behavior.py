"""What a pod's containers are going to do, since no container really runs.

A pod says it itself, by annotations:

| annotation `kubesched.io/...` | value | meaning |
|---|---|---|
| `start-delay` | duration | from binding to running, as for a large image |
| `run-duration` | duration | the pod ends after it, well unless `exit-code` says otherwise |
| `fail-after` | duration | the containers end with code 1, or `exit-code`; restart policies apply |
| `exit-code` | number | the code with which containers end |
| `ready-delay` | duration or `never` | from running to ready |
| `image-pull` | `fail` | the image cannot be pulled, and the pod stays Pending |
| `stop-delay` | duration | how long the containers take to end when the pod is deleted |

What it leaves open, rules from a file may say (`behavior_rules.py`), then its commands if they
are literal, its readiness probes and preStop hooks. Durations are written `90s`, `1h30m`, or in
seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from kubesched.api import Pod
from kubesched.api.pod import Container
from kubesched.cluster.nodes.container_commands import CommandOutcome, literal_end, literal_outcome
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
    "run_duration_ns",
]

PREFIX = "kubesched.io/"
RUN_DURATION = PREFIX + "run-duration"
STOPPED = PREFIX + "stopped"
"""On a node: its kubelet is not running."""
NEVER = "never"

DEFAULT_RUN_NS = 5 * SECOND
"""How long a pod of a Job runs that does not say: containers here have no end of their own."""

_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_NO_SUCH_IMAGE = re.compile(
    r"^invalid\.|:404$|non-?existent|(does-?nt|does-not|doesnt)-exist", re.IGNORECASE
)
_PAUSE = re.compile(r"(^|/)pause(:|@|$)")


class Behavior(msgspec.Struct, frozen=True):
    """One pod's future. A time of None is one that nobody gave."""

    start_delay_ns: int | None = None
    stop_delay_ns: int | None = None
    ready_delay_ns: int | None = 0
    """None: never ready."""
    pulls_image: bool = True
    ends_pod: bool = False
    """Whether the pod is over when its containers end, whatever its restart policy."""
    outcomes: tuple[CommandOutcome, ...] = ()
    """One per container."""
    init_outcomes: tuple[CommandOutcome, ...] = ()
    """One per init container, in order; those without a literal command end at once."""


def duration_ns(text: str) -> int | None:
    """A duration as annotations have them; None for one that cannot be read."""
    if not text:
        return None
    try:
        if _SECONDS.fullmatch(text):
            return round(float(text) * SECOND)
        return parse_duration(text)
    except ValueError:
        return None


def run_duration_ns(pod: Pod) -> int | None:
    """How long the pod says it runs; None for ever. An unreadable duration counts as none."""
    return duration_ns(pod.metadata.annotations.get(RUN_DURATION, ""))


def behavior_of(pod: Pod, from_rules: Callable[[Pod], Mapping[str, str]] | None = None) -> Behavior:
    """What a pod is going to do: its annotations first, then the rules, then its spec."""
    if from_rules is None and (plain := _plain_behavior(pod)) is not None:
        return plain
    said = {
        key.removeprefix(PREFIX): value
        for key, value in pod.metadata.annotations.items()
        if key.startswith(PREFIX)
    }
    if from_rules is not None:
        said = {**from_rules(pod), **said}
    containers = pod.spec.containers
    outcome, ends_pod = _said_outcome(said)
    if outcome is not None:
        outcomes = tuple(outcome for _ in containers)
    else:
        outcomes = tuple(_outcome(container, pod) for container in containers)
    return Behavior(
        start_delay_ns=duration_ns(said.get("start-delay", "")),
        stop_delay_ns=_stop_delay_ns(said, containers),
        ready_delay_ns=_ready_delay_ns(said, containers),
        pulls_image=said.get("image-pull") != "fail"
        and all(_is_there(container.image) for container in containers),
        ends_pod=ends_pod,
        outcomes=outcomes,
        init_outcomes=tuple(
            literal_outcome((*each.command, *each.args)) or CommandOutcome(0)
            for each in pod.spec.init_containers
            if each.restart_policy != "Always"
        ),
    )


def _plain_behavior(pod: Pod) -> Behavior | None:
    """What `behavior_of` comes to for a pod that says how long it runs, and nothing else."""
    annotations, spec = pod.metadata.annotations, pod.spec
    if RUN_DURATION not in annotations or spec.init_containers:
        return None
    for key in annotations:
        if key.startswith(PREFIX) and key != RUN_DURATION:
            return None
    for each in spec.containers:
        if each.command or each.args or each.lifecycle or each.readiness_probe:
            return None
        if not _is_there(each.image):
            return None
    run_ns = run_duration_ns(pod)
    if run_ns is None:
        return None
    return Behavior(ends_pod=True, outcomes=(CommandOutcome(run_ns),) * len(spec.containers))


@lru_cache(maxsize=1024)
def _is_there(image: str) -> bool:
    """Whether an image can be pulled; many pods have the same one."""
    return _NO_SUCH_IMAGE.search(image) is None


def _said_outcome(said: Mapping[str, str]) -> tuple[CommandOutcome | None, bool]:
    """How the containers end if somebody says so, and whether that ends the pod."""
    text = said.get("exit-code", "")
    code = int(text) if text.isdecimal() else None
    if (after_ns := duration_ns(said.get("fail-after", ""))) is not None:
        return CommandOutcome(after_ns, 1 if code is None else code), False
    if (run_ns := duration_ns(said.get("run-duration", ""))) is not None:
        return CommandOutcome(run_ns, code or 0), True
    return None, False


def _outcome(container: Container, pod: Pod) -> CommandOutcome:
    literal = literal_outcome((*container.command, *container.args))
    if literal is not None:
        return literal
    if _is_of_job(pod) and not _pauses(container):
        return CommandOutcome(DEFAULT_RUN_NS)
    return CommandOutcome(None)


def _is_of_job(pod: Pod) -> bool:
    return any(owner.controller and owner.kind == "Job" for owner in pod.metadata.owner_references)


def _pauses(container: Container) -> bool:
    return bool(_PAUSE.search(container.image)) or "pause" in container.args


def _ready_delay_ns(said: Mapping[str, str], containers: tuple[Container, ...]) -> int | None:
    text = said.get("ready-delay", "")
    if text == NEVER:
        return None
    if (given_ns := duration_ns(text)) is not None:
        return given_ns
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


def _stop_delay_ns(said: Mapping[str, str], containers: tuple[Container, ...]) -> int | None:
    if (given_ns := duration_ns(said.get("stop-delay", ""))) is not None:
        return given_ns
    slowest = None
    for container in containers:
        end = literal_end((*container.command, *container.args))
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
