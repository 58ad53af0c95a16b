"""The choice between equally good nodes, by the rule of the profile."""

from __future__ import annotations

import random

import numpy as np
import pytest
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.framework import (
    SUCCESS,
    CycleState,
    NodeInfo,
    Plugin,
    PodInfo,
    PodPart,
    Reads,
    Status,
)
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.config import default_configuration
from kubesched.scheduler.config.types import (
    BY_NAME,
    KubeSchedulerProfile,
    PluginRef,
    Plugins,
    PluginSet,
)
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.ties import FirstByName
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.testing import FakeHandle, make_node, make_pod

NAMES = ["m", "c", "x", "b", "k", "a2"]


class PrefersShortNames(Plugin):
    """Nodes with a short name are better."""

    name = "PrefersShortNames"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 90 if len(node.name) == 1 else 10


class FiltersAfterScores(Plugin):
    """Has a filter that is called after the nodes are scored."""

    name = "FiltersAfterScores"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if node.name != "b" else Status.unschedulable("it is b")


class TieHarness:
    def __init__(self, *plugins: type[Plugin], tie_break: str = BY_NAME) -> None:
        self.cache = Cache()
        for name in NAMES:
            self.cache.add_node(make_node(name))
        snapshot = self.cache.update_snapshot()
        self.framework = Framework(
            _profile(plugins, tie_break),
            {**IN_TREE_PLUGINS, **{plugin.name: plugin for plugin in plugins}},
            FakeHandle((), snapshot=snapshot).services(),
        )
        self.search = CachedSearch(snapshot, random.Random(7))

    def place(self, name: str) -> str:
        self.cache.update_snapshot()
        pod_info = PodInfo(make_pod(name))
        result = self.search.schedule_pod(self.framework, CycleState(), pod_info)
        self.cache.assume_pod(pod_info.placed_on(result.node_name))
        return result.node_name


def _profile(plugins: tuple[type[Plugin], ...], tie_break: str) -> KubeSchedulerProfile:
    profile = default_configuration().profiles[0]
    score = PluginSet(
        enabled=(PluginRef(PrefersShortNames.name),) if PrefersShortNames in plugins else (),
        disabled=(PluginRef("*"),),
    )
    own = tuple(PluginRef(plugin.name) for plugin in plugins if plugin is not PrefersShortNames)
    multi_point = replace(
        profile.plugins.multi_point, enabled=(*profile.plugins.multi_point.enabled, *own)
    )
    chosen: Plugins = replace(profile.plugins, score=score, multi_point=multi_point)
    return replace(profile, plugins=chosen, tie_break=tie_break)


def test_the_first_by_name_of_the_best_is_taken_every_time() -> None:
    harness = TieHarness(PrefersShortNames)
    # Enough pods for the cache entry's index to be built and used.
    assert [harness.place(f"p{number}") for number in range(8)] == ["b"] * 8


def test_a_node_added_later_is_inserted_in_order() -> None:
    harness = TieHarness(PrefersShortNames)
    for number in range(4):
        harness.place(f"p{number}")
    harness.cache.add_node(make_node("a"))
    assert harness.place("last") == "a"


def test_filters_that_are_called_last_do_not_change_the_order() -> None:
    harness = TieHarness(PrefersShortNames, FiltersAfterScores)
    assert [harness.place(f"p{number}") for number in range(8)] == ["c"] * 8


def test_without_the_option_all_of_the_best_are_taken() -> None:
    harness = TieHarness(PrefersShortNames, tie_break="")
    assert {harness.place(f"p{number}") for number in range(60)} == {"m", "c", "x", "b", "k"}


@pytest.mark.parametrize(
    ("totals", "want"), [([3, 9, 9, 1], 2), ([9, 3, 3, 3], 0), ([4, 4, 4, 4], 3)]
)
def test_nodes_of_which_only_names_are_stored(totals: list[int], want: int) -> None:
    assert FirstByName().best_named(np.array(totals), ["z", "y", "x", "w"]) == want
