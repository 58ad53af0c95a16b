"""Placement tests: in Python, in YAML, and their messages for violated claims."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.api import Pod
from kubesched.errors import ConfigError
from kubesched.framework import CycleState, NodeInfo, Plugin
from kubesched.sim.checks import load_checks
from kubesched.testing import ZONE, Spread, expect_placement, make_node, make_pod
from kubesched.testing.placement import (
    Claim,
    Never,
    Only,
    Pending,
    PendingAtMost,
    PerNode,
    Placed,
    PlacedPod,
    Placement,
)


def web(count: int, **more: object) -> list[Pod]:
    return [
        make_pod(f"web-{n}", labels={"app": "web"}, images=["web"], **more)  # type: ignore[arg-type]
        for n in range(count)
    ]


NODES = [make_node(f"n{n}", zone=f"z{n % 3}") for n in range(6)]


def test_a_claim_that_holds() -> None:
    placement = expect_placement(nodes=NODES, pods=web(6), then=[Placed({"app": "web"})])
    assert placement.node_of("web-0") in {f"n{n}" for n in range(6)}


def test_all_claims_that_do_not_hold_are_named() -> None:
    with pytest.raises(AssertionError) as caught:
        expect_placement(
            nodes=NODES[:1],
            pods=web(3, requests={"cpu": "3"}),
            then=[Placed({"app": "web"}), Spread({"app": "web"}, over=ZONE, domains=2)],
        )
    first, second = str(caught.value).splitlines()
    assert first.startswith("1 of 3 pods have a node, not 3; default/web-")
    assert "Insufficient cpu" in first
    assert second == f"spread over 1 values of {ZONE}, not 2 (z0: 1)"


def test_plugins_take_part() -> None:
    class LastOne(Plugin):
        name = "LastOne"

        def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
            return 100 if node.name == "n5" else 0

    from kubesched.scheduler.config.load import configuration_from_builtins

    profile = {
        "plugins": {
            "multiPoint": {"enabled": [{"name": "LastOne", "weight": 1000}]},
        }
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    placement = expect_placement(
        nodes=NODES,
        pods=web(1),
        plugins=[LastOne],
        configuration=configuration_from_builtins({**head, "profiles": [profile]}),
    )
    assert placement.node_of("default/web-0") == "n5"


PLACEMENT = Placement(
    pods=(
        PlacedPod(name="default/a", labels={"app": "x"}, node="n1", pending_s=10),
        PlacedPod(name="default/b", labels={"app": "x"}, node="n1", pending_s=90),
        PlacedPod(name="default/c", labels={"app": "y"}, pending_s=300, reason="Insufficient cpu"),
    ),
    nodes={"n1": {"pool": "spot", ZONE: "1"}, "n2": {ZONE: "2"}},
)
X, Y = {"app": "x"}, {"app": "y"}
CLAIMS: dict[str, tuple[Claim, str]] = {
    "placed": (Placed(X), ""),
    "so many placed": (Placed({}, count=2), ""),
    "not placed": (Placed({}), "2 of 3 pods have a node, not 3; default/c: Insufficient cpu"),
    "no pods to be placed": (Placed({"app": "z"}), "no pod has the labels app=z"),
    "pending": (Pending(Y, reason="cpu"), ""),
    "not pending": (Pending(X), "0 of 2 pods are pending, not 2"),
    "pending for another reason": (
        Pending(Y, reason="taint"),
        "default/c is pending for another reason: Insufficient cpu",
    ),
    "soon": (PendingAtMost(X, seconds=90), ""),
    "not soon": (PendingAtMost(X, seconds=60), "default/b waited 90 s, more than 60 s"),
    "spread": (Spread(X, over=ZONE, domains=1), ""),
    "not even": (
        Spread(X, over=ZONE, skew=1),
        f"not even over {ZONE} within 1 (1: 2, 2: 0)",
    ),
    "never": (Never(Y, nodes={"pool": "spot"}), ""),
    "but": (
        Never(X, nodes={"pool": "spot"}),
        "on a node with pool=spot: default/a (n1), default/b (n1)",
    ),
    "only": (Only(X, nodes={"pool": "spot"}), ""),
    "not only": (
        Only(X, nodes={ZONE: "2"}),
        f"on a node without {ZONE}=2: default/a (n1), default/b (n1)",
    ),
    "per node": (PerNode(X, at_most=2), ""),
    "too many": (PerNode(X, at_most=1), "2 pods on n1, more than 1"),
}


@pytest.mark.parametrize("case", CLAIMS.values(), ids=CLAIMS)
def test_claims(case: tuple[Claim, str]) -> None:
    claim, want = case
    assert claim.check(PLACEMENT) == want


ZONES = """\
kind: PlacementTest
name: spread over three zones
given:
  nodes:
  - {name: 'n', count: 6, cpu: 4, memory: 8Gi, zones: [a, b, c]}
when:
- pods: {name: web, replicas: 6, cpu: 1, memory: 1Gi, labels: {app: web}}
then:
- spread: {pods: {app: web}, over: zone, domains: 3, skew: 1}
- perNode: {pods: {app: web}, atMost: 1}
---
kind: PlacementTest
name: a zone is lost
given:
  nodes:
  - {name: 'n', count: 3, cpu: 4, memory: 8Gi, zones: [a, b, c]}
when:
- pods: {name: web, kind: Deployment, replicas: 3, cpu: 1, labels: {app: web}}
- wait: 10m
- fail: {zone: a}
- wait: 15m
then:
- placed: {pods: {app: web}}
- never: {pods: {app: web}, nodes: {topology.kubernetes.io/zone: a}}
"""


def checks(folder: Path, text: str):
    (folder / "t.yaml").write_text(text)
    return load_checks([folder])


def test_tests_in_yaml(tmp_path: Path) -> None:
    found = checks(tmp_path, ZONES)
    assert [str(each) for each in found] == ["spread over three zones", "a zone is lost"]
    for each in found:
        each.run()


def test_a_claim_that_does_not_hold_names_its_line(tmp_path: Path) -> None:
    (check, _) = checks(tmp_path, ZONES.replace("atMost: 1", "atMost: 0"))
    assert check.result().problems == [f"{tmp_path}/t.yaml:10: 1 pods on n-0, more than 0"]
    with pytest.raises(AssertionError, match="more than 0"):
        check.run()


@pytest.mark.parametrize(
    ("before", "after", "line", "want"),
    [
        ("perNode:", "perNodes:", 10, "then[1]: needs one of placed, pending"),
        ("atMost: 1", "atLeast: 1", 10, "then[1].perNode.atLeast: unknown field"),
        ("cpu: 4, memory: 8Gi, zones: [a, b, c]}\nwhen:\n- pods: {name: web, rep", "", 3, ""),
        ("- wait: 10m", "- sleep: 10m", 19, "when[1]: needs one of pods, wait, fail"),
        ("name: spread over three zones\n", "", 1, "name: is missing"),
    ],
)
def test_mistakes(tmp_path: Path, before: str, after: str, line: int, want: str) -> None:
    assert before in ZONES
    with pytest.raises(ConfigError) as caught:
        checks(tmp_path, ZONES.replace(before, after, 1))
    if want:
        assert str(caught.value).startswith(f"{tmp_path}/t.yaml:{line}: {want}")
    assert "\n" not in str(caught.value)
