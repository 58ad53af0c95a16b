"""Pods that fail on request: by annotation, by rule, by literal command."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import Container, ContainerPort, ObjectMeta, Pod, PodSpec
from kubesched.cluster.nodes.behavior_rules import parse_behavior_rules
from kubesched.cluster.nodes.container_commands import (
    CommandOutcome,
    literal_outcome,
    literal_termination,
)
from kubesched.cluster.nodes.container_scripts import ContainerScripts
from kubesched.cluster.nodes.pod_behavior import PREFIX, behavior_of
from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import MINUTE, SECOND
from tests.cluster.nodes.test_kubelet import KubeletHarness, scenario

TRAPPED = """_term(){
    sleep 5
    exit 143
}
trap _term SIGTERM
while true; do
    sleep 1
done"""


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (["sh", "-c", "exit 3"], CommandOutcome(0, 3)),
        (["/bin/sh", "-c", "sleep 5 && exit 0"], CommandOutcome(5 * SECOND, 0)),
        (
            ["/bin/bash", "-c", "sleep 1; sleep 2m; exit 7; sleep 9"],
            CommandOutcome(SECOND + 2 * MINUTE, 7),
        ),
        (["/bin/true"], CommandOutcome(0)),
        (["false"], CommandOutcome(0, 1)),
        (["sleep", "0.5"], CommandOutcome(SECOND // 2)),
        (["sh", "-c", "sleep infinity"], CommandOutcome(None)),
        (["sh", "-c", "exit $RANDOM"], None),
        (["nginx"], None),
        (["sh", "-c", "while true; do date; done"], CommandOutcome(None)),
        (["sh", "-c", "while true; do date; exit 1; done"], None),
        (["sh", "-c", TRAPPED], CommandOutcome(None)),
        ([], None),
    ],
)
def test_literal_commands_are_read(command: list[str], outcome: CommandOutcome | None) -> None:
    assert literal_outcome(command) == outcome


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (["sh", "-c", TRAPPED], CommandOutcome(5 * SECOND, 143)),
        (["sh", "-c", "trap 'exit 0' TERM; sleep infinity"], CommandOutcome(0)),
        (["sh", "-c", 'trap "sleep 2; rm x" SIGTERM; sleep 9'], None),
        (["sh", "-c", "sleep 9"], None),
        (["sleep", "9"], None),
    ],
)
def test_a_script_ends_on_a_signal(command: list[str], outcome: CommandOutcome | None) -> None:
    assert literal_termination(command) == outcome


async def make(harness: KubeletHarness, policy: str = "Always", **annotations: str) -> None:
    notes = {PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    metadata = ObjectMeta(name="p", namespace="default", annotations=notes)
    containers = (Container(name="c", image="app"),)
    spec = PodSpec(containers=containers, restart_policy=policy)
    await harness.api.create(Pod(metadata=metadata, spec=spec))
    await harness.api.bind("default", "p", "", "n")


def ready(pod: Pod) -> str:
    return next(each.status for each in pod.status.conditions if each.type == "Ready")


def test_a_failing_container_is_restarted_after_longer_and_longer_pauses() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await make(harness, fail_after="1s", exit_code="9")
        counts = []
        for _ in range(120):
            await harness.after(1)
            counts.append((await harness.get()).status.container_statuses[0].restart_count)
        # Restarts at once, then after 10, 20 and 40 s; each run takes a second.
        moments = [counts.index(number) for number in range(1, 5)]
        assert moments == [1, 12, 33, 74]
        status = (await harness.get()).status.container_statuses[0]
        assert status.state.waiting is not None
        assert status.state.waiting.reason == "CrashLoopBackOff"
        assert status.last_state.terminated is not None
        assert status.last_state.terminated.exit_code == 9
        assert (await harness.get()).status.phase == "Running"
        assert ready(await harness.get()) == "False"

    scenario(steps)


@pytest.mark.parametrize(("policy", "phase"), [("Never", "Failed"), ("OnFailure", "Running")])
def test_restart_policies_decide_what_a_failure_means(policy: str, phase: str) -> None:
    async def steps(harness: KubeletHarness) -> None:
        await make(harness, policy, fail_after="2s")
        await harness.after(5)
        assert (await harness.get()).status.phase == phase

    scenario(steps)


def test_starting_readiness_and_stopping_take_the_configured_times() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await make(harness, start_delay="5s", ready_delay="3s", stop_delay="7s")
        await harness.after(4.9)
        assert (await harness.get()).status.phase == "Pending"
        await harness.after(0.2)
        assert (await harness.get()).status.phase == "Running"
        assert ready(await harness.get()) == "False"
        await harness.after(3)
        assert ready(await harness.get()) == "True"
        await harness.api.delete(Pod, "p", "default")
        await harness.after(6.5)
        assert await harness.names() == ["p"]
        await harness.after(1)
        assert await harness.names() == []

    scenario(steps)


@pytest.mark.parametrize(
    "image", ["invalid.registry.k8s.io/alpine:1", "webserver:404", "foo:non-existent"]
)
def test_a_pod_whose_image_cannot_be_pulled_stays_pending(image: str) -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod(containers=(Container(name="c", image=image),))
        await harness.after(5)
        pod = await harness.get()
        waiting = pod.status.container_statuses[0].state.waiting
        assert waiting is not None
        assert (pod.status.phase, waiting.reason) == ("Pending", "ErrImagePull")
        assert pod.status.observed_generation == pod.metadata.generation

    scenario(steps)


def test_a_pod_whose_host_port_is_taken_is_refused() -> None:
    async def steps(harness: KubeletHarness) -> None:
        ports = (ContainerPort(container_port=80, host_port=80),)
        containers = (Container(name="c", image="app", ports=ports),)
        await harness.pod("first", containers=containers)
        await harness.after(1)
        await harness.pod("second", containers=containers)
        await harness.pod("elsewhere", node="m", containers=containers)
        await harness.after(1)
        second = (await harness.get("second")).status
        assert (second.phase, second.reason) == ("Failed", "NodePorts")
        assert (await harness.get("elsewhere")).status.phase == "Running"
        await harness.api.delete(Pod, "first", "default")
        await harness.after(3)
        await harness.pod("third", containers=containers)
        await harness.after(1)
        assert (await harness.get("third")).status.phase == "Running"

    scenario(steps)


def test_readiness_gates_are_left_to_other_clients() -> None:
    async def steps(harness: KubeletHarness) -> None:
        from kubesched.api import PodReadinessGate

        await harness.pod(readiness_gates=(PodReadinessGate(condition_type="example.com/ok"),))
        await harness.after(1)
        assert ready(await harness.get()) == "False"
        for status in ("True", "False"):
            patch = {"status": {"conditions": [{"type": "example.com/ok", "status": status}]}}
            await harness.api.patch(Pod, "p", "default", patch, subresource="status")
            await harness.after(1)
            assert ready(await harness.get()) == status

    scenario(steps)


def test_a_pod_that_is_active_for_too_long_fails() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod()
        await harness.after(5)
        patch = {"spec": {"activeDeadlineSeconds": 10}}
        await harness.api.patch(Pod, "p", "default", patch)
        await harness.after(4)
        pod = await harness.get()
        assert pod.status.phase == "Running"
        assert pod.status.observed_generation == pod.metadata.generation == 2
        await harness.after(2)
        status = (await harness.get()).status
        assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")

    scenario(steps)


RULES = """
rules:
- match: {namespace: shop, labels: {app: web}}
  behavior: {startDelay: {uniform: [1s, 5s]}, readyDelay: never}
- match: {selector: "tier in (batch)"}
  probability: 0.5
  behavior: {failAfter: {exponential: 5m}, exitCode: 3}
"""


def pod(name: str, namespace: str = "default", annotations: Any = None, **labels: str) -> Pod:
    metadata = ObjectMeta(
        name=name, namespace=namespace, labels=labels, annotations=annotations or {}
    )
    return Pod(metadata=metadata, spec=PodSpec(containers=(Container(name="c", image="app"),)))


def test_behavior_rules_apply_without_annotations_and_are_reproducible() -> None:
    behavior = parse_behavior_rules(RULES, seed=1)
    delays = [behavior(pod(f"p{number}", "shop", app="web")) for number in range(50)]
    seconds = [(each.start_delay_ns or 0) / SECOND for each in delays]
    assert len(set(seconds)) == 50
    assert all(1 <= each <= 5 for each in seconds)
    assert {each.ready_delay_ns for each in delays} == {None}
    again = parse_behavior_rules(RULES, seed=1)
    assert [again(pod(f"p{number}", "shop", app="web")) for number in range(50)] == delays
    other = parse_behavior_rules(RULES, seed=2)
    assert other(pod("p0", "shop", app="web")) != delays[0]
    batch = [behavior(pod(f"b{number}", tier="batch")) for number in range(100)]
    failing = [each for each in batch if each.outcomes[0].duration_ns is not None]
    assert 30 <= len(failing) <= 70
    assert {each.outcomes[0].exit_code for each in failing} == {3}
    said = pod("q", "shop", {PREFIX + "ready-delay": "1s"}, app="web")
    assert behavior(said).ready_delay_ns == SECOND
    assert behavior(pod("plain")) == behavior_of(pod("plain"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rules: [{behavior: {startDelay: soon}}]",
            "rules[0].behavior.startDelay: 'soon' is neither a time",
        ),
        ("rules: [{behavior: {fly: 1s}}]", "rules[0].behavior.fly: no such behavior"),
        ("rules: [{behavior: {}, probability: 2}]", "rules[0].probability: 2.0 is not between"),
        ("rules: [{behavior: {startDelay: {uniform: [1s]}}}]", "neither a time nor a random time"),
        ("rules: [{match: {selector: 'a in'}, behavior: {}}]", "rules[0].match.selector"),
        ("rule: []", "unknown field"),
    ],
)
def test_a_rule_that_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(KubeschedError) as caught:
        parse_behavior_rules(text, seed=0, name="f.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("f.yaml: ")


def test_scripts_of_rules_are_further_annotations() -> None:
    text = """
rules:
- match: {labels: {app: web}}
  scripts:
    log: from the first rule
    logInterval: 2s
    exec: [{command: ls, stdout: file}]
- match: {namespace: default}
  scripts: {log: from the second rule, port.80: "127.0.0.1:1"}
- match: {labels: {app: web}}
  behavior: {exitCode: 3}
"""
    rules = parse_behavior_rules(text, seed=0)
    assert rules.scripts is not None
    web, other = pod("a", app="web"), pod("b")
    assert rules.scripts(web) == {
        "kubesched.io/log": "from the first rule",
        "kubesched.io/log-interval": "2s",
        "kubesched.io/exec": "- command: ls\n  stdout: file\n",
        "kubesched.io/port.80": "127.0.0.1:1",
    }
    assert rules.scripts(other)["kubesched.io/log"] == "from the second rule"
    scripts = ContainerScripts(rules.scripts)
    assert scripts.run(web, "c", ["ls"]).stdout == b"file"
    own = pod("c", annotations={"kubesched.io/log": "own"}, app="web")
    assert [line.text for line in scripts.log(own, "c", 0)] == ["own"]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("match: {}", "neither `behavior` nor `scripts`"),
        ("scripts: {logs: x}", "rules[0].scripts.logs: no such script"),
    ],
)
def test_invalid_scripts_are_refused(rule: str, why: str) -> None:
    with pytest.raises(KubeschedError) as caught:
        parse_behavior_rules(f"rules:\n- {rule}\n", seed=0, name="f.yaml")
    assert why in str(caught.value)


def test_rules_without_scripts_cost_nothing() -> None:
    assert parse_behavior_rules(RULES, seed=0).scripts is None
