"""Preferred node affinity."""

from __future__ import annotations

import pytest

from kubesched.api import NodeAffinity as NodeAffinitySpec
from kubesched.errors import ConfigError, SelectorError
from kubesched.framework import SKIP, SUCCESS, CycleState, PodInfo
from kubesched.scheduler.config.args import NodeAffinityArgs
from kubesched.scheduler.plugins.node_affinity import NodeAffinity
from kubesched.testing import make_affinity, make_node, make_pod, make_view, run_score
from kubesched.testing.objects.views import score_each, score_together

NODES = make_view(
    make_node("n1", labels={"a": "1"}),
    make_node("n2", labels={"a": "1", "b": "1", "c": "1"}),
    make_node("n3", labels={"b": "1"}),
)
A, B, C = (2, ("a", "In", "1")), (4, ("b", "Exists")), (5, ("c", "Exists"))
BAD_KEY = ("invalid key", "Exists")


def added(*preferred: object) -> NodeAffinity:
    affinity = make_affinity(node_preferred=preferred).node_affinity
    return NodeAffinity(NodeAffinityArgs(added_affinity=affinity))


def test_weights_of_matching_terms_add_up_and_the_best_node_gets_100() -> None:
    pod = make_pod("p", affinity=make_affinity(node_preferred=[A, B, C]))
    assert run_score(NodeAffinity(), pod, NODES, normalize=False) == [2, 11, 4]
    assert run_score(NodeAffinity(), pod, NODES) == [18, 100, 36]


def test_added_preferences_count_like_the_pods_own() -> None:
    pod = make_pod("p", affinity=make_affinity(node_preferred=[A]))
    assert run_score(added(B), pod, NODES, normalize=False) == [2, 6, 4]
    assert run_score(added(B), make_pod("q"), NODES, normalize=False) == [0, 4, 4]


def test_scores_without_matching_terms_stay_zero() -> None:
    pod = make_pod("p", affinity=make_affinity(node_preferred=[(7, ("z", "Exists"))]))
    assert run_score(NodeAffinity(), pod, NODES) == [0, 0, 0]


PRE_SCORE_CASES = {
    "no affinity": (NodeAffinity(), make_pod("p"), SKIP),
    "only requirements": (
        NodeAffinity(),
        make_pod("p", affinity=make_affinity(node=("a", "Exists"))),
        SKIP,
    ),
    "an empty list of preferences": (
        NodeAffinity(),
        make_pod("p", affinity=make_affinity(node_preferred=[])),
        SUCCESS,
    ),
    "a bad term of weight zero is not looked at": (
        NodeAffinity(),
        make_pod("p", affinity=make_affinity(node_preferred=[(0, BAD_KEY)])),
        SUCCESS,
    ),
    "added preferences": (added(A), make_pod("p"), SUCCESS),
    "added requirements only": (
        NodeAffinity(
            NodeAffinityArgs(added_affinity=make_affinity(node=("a", "Exists")).node_affinity)
        ),
        make_pod("p"),
        SKIP,
    ),
}


@pytest.mark.parametrize(("plugin", "pod", "want"), PRE_SCORE_CASES.values(), ids=PRE_SCORE_CASES)
def test_pre_score(plugin: NodeAffinity, pod: object, want: object) -> None:
    assert plugin.pre_score(CycleState(), PodInfo(pod), NODES) == want


def test_an_invalid_term_is_an_error() -> None:
    pod = make_pod("p", affinity=make_affinity(node_preferred=[(2, BAD_KEY)]))
    status = NodeAffinity().pre_score(CycleState(), PodInfo(pod), NODES)
    assert status.message == (
        '[0].matchExpressions[0].key: Invalid value: "invalid key": name part must consist of '
        "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
        "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )
    with pytest.raises(SelectorError):
        NodeAffinity().score_nodes(CycleState(), pod, NODES)


def test_scoring_without_pre_score_parses_again() -> None:
    pod = make_pod("p", affinity=make_affinity(node_preferred=[A, B, C]))
    assert score_each(NodeAffinity(), CycleState(), pod, NODES).tolist() == [2, 11, 4]
    assert score_together(NodeAffinity(), CycleState(), pod, NODES).tolist() == [2, 11, 4]


def test_invalid_added_preferences_are_a_configuration_error() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^parsing addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: "
        r"\[0\].matchExpressions\[0\].key: Invalid value",
    ):
        added((1, BAD_KEY))


def test_an_added_affinity_may_be_empty() -> None:
    plugin = NodeAffinity(NodeAffinityArgs(added_affinity=NodeAffinitySpec()))
    assert plugin.pre_score(CycleState(), PodInfo(make_pod("p")), NODES) == SKIP
