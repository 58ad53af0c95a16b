"""Preferred affinity and anti-affinity (docs/reference/06 §5.3), and the pod signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from kubesched.api import Affinity, Node, Pod
from kubesched.framework import Code, CycleState, PodInfo
from kubesched.scheduler.config.args import InterPodAffinityArgs
from kubesched.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from kubesched.testing import (
    make_affinity,
    make_node,
    make_pod,
    make_pod_term,
    make_view,
    run_score,
)

WEB = {"app": "web"}
DB = {"app": "db"}


def node(name: str, **labels: str) -> Node:
    return make_node(name, labels=labels, hostname_label=False)


N1, N2, N3 = node("n1", region="r1"), node("n2", region="r2"), node("n3")


def running(
    name: str, node_name: str, labels: Mapping[str, str] = WEB, affinity: Affinity | None = None
) -> Pod:
    return make_pod(name, labels=labels, node_name=node_name, affinity=affinity)


def incoming(affinity: Affinity | None = None, labels: Mapping[str, str] = DB) -> Pod:
    return make_pod("p", labels=labels, affinity=affinity)


def likes(weight: int, labels: Mapping[str, str], key: str = "region") -> Affinity:
    return make_affinity(near_preferred=[(weight, make_pod_term(key, labels))])


def dislikes(weight: int, labels: Mapping[str, str], key: str = "region") -> Affinity:
    return make_affinity(apart_preferred=[(weight, make_pod_term(key, labels))])


class Case(NamedTuple):
    pod: Pod
    pods: Sequence[Pod]
    raw: list[int]
    want: list[int]
    nodes: Sequence[Node] = (N1, N2, N3)
    args: InterPodAffinityArgs = InterPodAffinityArgs()


HARD = make_affinity(near=[make_pod_term("region", DB)])

CASES = {
    "weights add up per region": Case(
        incoming(
            make_affinity(
                near_preferred=[
                    (2, make_pod_term("region", WEB)),
                    (8, make_pod_term("region", {"tier": "x"})),
                ]
            )
        ),
        [running("a", "n1"), running("b", "n2", {"app": "web", "tier": "x"})],
        [2, 10, 0],
        [20, 100, 0],
    ),
    "equal scores are all zero": Case(
        incoming(likes(1, WEB)), [running("a", "n1")], [1, 1], [0, 0], (N1, node("n2", region="r1"))
    ),
    "anti-affinity counts against a node": Case(
        incoming(dislikes(5, WEB)), [running("a", "n1")], [-5, 0, 0], [0, 100, 100]
    ),
    "shares are cut, not rounded: 29 of 100 is 28": Case(
        incoming(
            make_affinity(
                near_preferred=[
                    (29, make_pod_term("region", WEB)),
                    (100, make_pod_term("region", DB)),
                ]
            )
        ),
        [running("a", "n1"), running("b", "n2", DB)],
        [29, 100, 0],
        [28, 100, 0],
    ),
    "required affinity of existing pods counts a little": Case(
        incoming(), [running("a", "n1", {}, HARD)], [1, 0, 0], [100, 0, 0]
    ),
    "as much as it is configured to": Case(
        incoming(),
        [running("a", "n1", {}, HARD), running("b", "n2", {}, likes(10, DB))],
        [50, 10, 0],
        [100, 20, 0],
        args=InterPodAffinityArgs(hard_pod_affinity_weight=50),
    ),
    "preferences of existing pods count both ways": Case(
        incoming(),
        [running("a", "n1", {}, likes(3, DB)), running("b", "n2", {}, dislikes(7, DB))],
        [3, -7, 0],
        [100, 0, 70],
    ),
    "each term counts for itself, also if a pod matches two": Case(
        incoming(
            make_affinity(
                near_preferred=[(1, make_pod_term("region", WEB)), (1, make_pod_term("zone", WEB))]
            )
        ),
        [running("a", "n1")],
        [2, 1, 0],
        [100, 50, 0],
        (node("n1", region="r1", zone="z"), node("n2", region="r1", zone="y"), N3),
    ),
    "contributions that cancel out still count as there": Case(
        incoming(
            make_affinity(
                near_preferred=[(4, make_pod_term("region", WEB))],
                apart_preferred=[(4, make_pod_term("region", WEB))],
            )
        ),
        [running("a", "n1")],
        [0, 0, 0],
        [0, 0, 0],
    ),
    "with own preferences, ignoring those of others is off": Case(
        incoming(likes(2, WEB)),
        [running("a", "n1"), running("b", "n2", {}, likes(10, DB))],
        [2, 10, 0],
        [20, 100, 0],
        args=InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_score(case: Case) -> None:
    plugin = InterPodAffinity(case.args)
    view = make_view(*case.nodes, pods=case.pods)
    assert run_score(plugin, case.pod, view, normalize=False) == case.raw
    assert run_score(plugin, case.pod, view) == case.want


SKIPPED: dict[str, tuple[InterPodAffinityArgs, Pod, Sequence[Pod]]] = {
    "no terms anywhere": (InterPodAffinityArgs(), incoming(), [running("a", "n1")]),
    "own required terms give no score": (
        InterPodAffinityArgs(),
        incoming(make_affinity(near=[make_pod_term("region", WEB)])),
        [running("a", "n1")],
    ),
    "existing required anti-affinity gives no score": (
        InterPodAffinityArgs(),
        incoming(),
        [running("a", "n1", {}, make_affinity(apart=[make_pod_term("region", DB)]))],
    ),
    "a preference for pods that are not there": (
        InterPodAffinityArgs(),
        incoming(likes(1, WEB)),
        [running("a", "n1", {"app": "other"})],
    ),
    "a preference for pods on nodes without the key": (
        InterPodAffinityArgs(),
        incoming(likes(1, WEB)),
        [running("a", "n3")],
    ),
    "existing required affinity with weight zero": (
        InterPodAffinityArgs(hard_pod_affinity_weight=0),
        incoming(),
        [running("a", "n1", {}, HARD)],
    ),
    "ignoring the terms of others, required ones too": (
        InterPodAffinityArgs(
            hard_pod_affinity_weight=10, ignore_preferred_terms_of_existing_pods=True
        ),
        incoming(),
        [running("a", "n1", {}, HARD), running("b", "n2", {}, likes(1, DB))],
    ),
}


@pytest.mark.parametrize(("args", "pod", "pods"), SKIPPED.values(), ids=SKIPPED)
def test_pre_score_skips(args: InterPodAffinityArgs, pod: Pod, pods: Sequence[Pod]) -> None:
    view = make_view(N1, N2, N3, pods=pods)
    assert InterPodAffinity(args).pre_score(CycleState(), PodInfo(pod), view).code is Code.SKIP


def test_an_invalid_term_is_an_error_when_scoring() -> None:
    broken = make_affinity(near=[make_pod_term("zone", {"app": "{{bad}}"})])
    answer = InterPodAffinity().pre_score(CycleState(), PodInfo(incoming(broken)), make_view(N1))
    assert answer.code is Code.ERROR
    assert answer.message.startswith("failed to parse pod: requiredAffinityTerms: values[0][app]")


@pytest.mark.parametrize(
    ("scores", "want"),
    [([0, 29, 100], [0, 28, 100]), ([-10, -10], [0, 0]), ([0, 7, 9], [0, 77, 100]), ([], [])],
)
def test_normalization(scores: list[int], want: list[int]) -> None:
    given = np.array(scores, dtype=np.int64)
    view = make_view()
    got = InterPodAffinity().normalize_score(CycleState(), incoming(), view, given)
    assert got.tolist() == want
