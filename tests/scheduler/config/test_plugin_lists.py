"""Plugin lists: merged with the defaults, then expanded.

docs/reference/01 §6, §7; §17 rows 25-47.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.errors import ConfigError
from kubesched.scheduler.config import (
    KubeSchedulerProfile,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
    default_plugins,
    expand_plugins,
    expand_profiles,
    merge_plugins,
)
from kubesched.scheduler.config.plugin_lists import merge_plugin_set
from kubesched.scheduler.config.plugin_names import EXTENSION_POINTS, IN_TREE_EXTENSION_POINTS

# Plugins outside the tree, with the points they implement.
OTHERS = {
    "Foo": {"filter"},
    "X": {"score"},
    "Mine": {"queueSort"},
    "MyBind": {"bind"},
    "foo": {"reserve"},
    "Generator": {"placementGenerate"},
    "Generator2": {"placementGenerate"},
}
KNOWN = {**IN_TREE_EXTENSION_POINTS, **OTHERS}


def refs(text: str) -> tuple[PluginRef, ...]:
    """`A B=2`: two plugins, the second with a weight."""
    pairs = (word.split("=") for word in text.split())
    return tuple(PluginRef(name, int(weight[0]) if weight else 0) for name, *weight in pairs)


def plugin_set(enabled: str = "", disabled: str = "") -> PluginSet:
    return PluginSet(enabled=refs(enabled), disabled=refs(disabled))


def shown(found: tuple[PluginRef, ...]) -> str:
    return " ".join(f"{ref.name}={ref.weight}" if ref.weight else ref.name for ref in found)


class Merge(NamedTuple):
    custom: PluginSet
    want: PluginSet
    defaults: PluginSet = plugin_set("A B=2 C=3")


MERGES = {
    "nothing custom": Merge(plugin_set(), plugin_set("A B=2 C=3")),
    "custom plugins are appended": Merge(plugin_set("D E=4"), plugin_set("A B=2 C=3 D E=4")),
    "default keeps its place but loses its weight": Merge(plugin_set("B"), plugin_set("A B C=3")),
    "default keeps its place and takes the weight": Merge(
        plugin_set("B=7"), plugin_set("A B=7 C=3")
    ),
    "disabled default goes": Merge(plugin_set("", "B"), plugin_set("A C=3", "B")),
    "enabled and disabled moves to the end": Merge(
        plugin_set("B=7", "B"), plugin_set("A C=3 B=7", "B")
    ),
    "star disables all defaults": Merge(plugin_set("C D", "*"), plugin_set("C D", "*")),
    "unknown disabled names stay without effect": Merge(
        plugin_set("", "Z=5"), plugin_set("A B=2 C=3", "Z")
    ),
    "the last of repeated entries replaces, the others are appended": Merge(
        plugin_set("B=5 B=6"), plugin_set("A B=6 C=3 B=5")
    ),
    "disabled by default too": Merge(
        plugin_set("B", "X"), plugin_set("A B", "X C"), plugin_set("A C", "C")
    ),
}


@pytest.mark.parametrize("case", MERGES.values(), ids=MERGES)
def test_merge(case: Merge) -> None:
    assert merge_plugin_set(case.defaults, case.custom) == case.want


class Expansion(NamedTuple):
    custom: Plugins
    want: dict[str, str]


EXPANSIONS = {
    "weightless entry in multiPoint weighs one": Expansion(
        Plugins(multi_point=plugin_set("NodeAffinity")),
        {
            "score": "TaintToleration=3 NodeAffinity=1 NodeResourcesFit=1 VolumeBinding=1 "
            "PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2 "
            "NodeResourcesBalancedAllocation=1 ImageLocality=1"
        },
    ),
    "moved to the end of multiPoint": Expansion(
        Plugins(multi_point=plugin_set("NodeAffinity", "NodeAffinity")),
        {
            "score": "TaintToleration=3 NodeResourcesFit=1 VolumeBinding=1 "
            "PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2 "
            "NodeResourcesBalancedAllocation=1 ImageLocality=1 NodeAffinity=1"
        },
    ),
    "override of multiPoint runs first": Expansion(
        Plugins(score=plugin_set("ImageLocality=7")),
        {
            "score": "ImageLocality=7 TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 "
            "VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2 "
            "NodeResourcesBalancedAllocation=1"
        },
    ),
    "override without a weight weighs one": Expansion(
        Plugins(score=plugin_set("TaintToleration")),
        {
            "score": "TaintToleration=1 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 "
            "PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2 "
            "NodeResourcesBalancedAllocation=1 ImageLocality=1"
        },
    ),
    "overrides, then multiPoint, then the rest": Expansion(
        Plugins(score=plugin_set("X NodeAffinity")),
        {
            "score": "NodeAffinity=1 TaintToleration=3 NodeResourcesFit=1 VolumeBinding=1 "
            "PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2 "
            "NodeResourcesBalancedAllocation=1 ImageLocality=1 X=1"
        },
    ),
    "enabled and disabled at a point goes last": Expansion(
        Plugins(score=plugin_set("NodeAffinity", "NodeAffinity")),
        {
            "score": "TaintToleration=3 NodeResourcesFit=1 VolumeBinding=1 "
            "PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2 "
            "NodeResourcesBalancedAllocation=1 ImageLocality=1 NodeAffinity=1"
        },
    ),
    "star at a point leaves other points alone": Expansion(
        Plugins(score=plugin_set("", "*")),
        {
            "score": "",
            "preScore": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding "
            "PodTopologySpread InterPodAffinity NodeResourcesBalancedAllocation",
        },
    ),
    "disabled at a point only": Expansion(
        Plugins(reserve=plugin_set("", "VolumeBinding NoSuch")),
        {"reserve": "DynamicResources", "preBind": "VolumeBinding DynamicResources"},
    ),
    "re-enabled after others": Expansion(
        Plugins(reserve=plugin_set("foo VolumeBinding", "VolumeBinding")),
        {"reserve": "DynamicResources foo VolumeBinding"},
    ),
    "own binder runs after the default one": Expansion(
        Plugins(bind=plugin_set("MyBind")), {"bind": "DefaultBinder MyBind"}
    ),
    "own queue order": Expansion(
        Plugins(queue_sort=plugin_set("Mine", "*")), {"queueSort": "Mine"}
    ),
    "own multiPoint list": Expansion(
        Plugins(
            multi_point=plugin_set(
                "SchedulingGates DefaultBinder PrioritySort DefaultPreemption VolumeBinding "
                "NodeResourcesFit NodePorts InterPodAffinity TaintToleration DynamicResources",
                "*",
            ),
            score=plugin_set("", "VolumeBinding NodeResourcesFit"),
        ),
        {
            "score": "InterPodAffinity=1 TaintToleration=1 DynamicResources=1",
            "postFilter": "DefaultPreemption DynamicResources",
        },
    ),
    "negative weight of the last plugin": Expansion(
        Plugins(
            multi_point=plugin_set("ImageLocality=-1"),
            score=plugin_set("", "NodeAffinity PodTopologySpread InterPodAffinity VolumeBinding"),
        ),
        {
            "score": "TaintToleration=3 NodeResourcesFit=1 DynamicResources=2 "
            "NodeResourcesBalancedAllocation=1 ImageLocality=-1"
        },
    ),
}


@pytest.mark.parametrize("case", EXPANSIONS.values(), ids=EXPANSIONS)
def test_expansion(case: Expansion) -> None:
    plugins = merge_plugins(default_plugins(), case.custom)
    points = expand_plugins(plugins, KNOWN, scheduler_name="default-scheduler")
    assert {point: shown(points[point]) for point in case.want} == case.want


def test_negative_weight_amid_others_is_accepted() -> None:
    plugins = merge_plugins(default_plugins(), Plugins(multi_point=plugin_set("NodeAffinity=-1")))
    points = expand_plugins(plugins, KNOWN, scheduler_name="x")
    assert PluginRef("NodeAffinity", -1) in points["score"]


ERRORS = {
    "unknown plugin at a point": (
        Plugins(filter=plugin_set("Nope")),
        'FilterPlugin "Nope" does not exist',
    ),
    "unknown plugin everywhere": (
        Plugins(multi_point=plugin_set("Nope")),
        'PreFilterPlugin "Nope" does not exist',
    ),
    "unknown plugin everywhere but at the first point": (
        Plugins(multi_point=plugin_set("Nope"), pre_filter=plugin_set("", "*")),
        'FilterPlugin "Nope" does not exist',
    ),
    "star is no plugin to enable": (
        Plugins(filter=plugin_set("*")),
        'FilterPlugin "*" does not exist',
    ),
    "removed plugin in multiPoint": (
        Plugins(multi_point=plugin_set("EBSLimits")),
        'PreFilterPlugin "EBSLimits" does not exist',
    ),
    "plugin at a point it does not implement": (
        Plugins(score=plugin_set("NodeName")),
        'plugin "NodeName" does not extend ScorePlugin plugin',
    ),
    "plugin twice at a point": (
        Plugins(filter=plugin_set("Foo Foo")),
        'plugin "Foo" already registered as "FilterPlugin"',
    ),
    "plugin twice in multiPoint": (
        Plugins(multi_point=plugin_set("Foo Foo")),
        'plugin "Foo" already registered as "FilterPlugin"',
    ),
    "no queue order": (
        Plugins(multi_point=plugin_set("", "*")),
        "only one queue sort plugin required for profile with scheduler name "
        '"default-scheduler", but got 0',
    ),
    "two queue orders": (
        Plugins(queue_sort=plugin_set("Mine")),
        "only one queue sort plugin required for profile with scheduler name "
        '"default-scheduler", but got 2',
    ),
    "no binder": (
        Plugins(multi_point=plugin_set("PrioritySort", "*")),
        'at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
    ),
    "two placement generators": (
        Plugins(placement_generate=plugin_set("Generator Generator2")),
        "at most one placement generate plugin is allowed for profile with scheduler name "
        '"default-scheduler"',
    ),
    "negative weight first": (
        Plugins(multi_point=plugin_set("TaintToleration=-1")),
        "score plugins: total score of Score plugins could overflow",
    ),
}


@pytest.mark.parametrize(("custom", "want"), ERRORS.values(), ids=ERRORS)
def test_profile_that_cannot_be_built(custom: Plugins, want: str) -> None:
    plugins = merge_plugins(default_plugins(), custom)
    with pytest.raises(ConfigError) as caught:
        expand_plugins(plugins, KNOWN, scheduler_name="default-scheduler")
    assert str(caught.value) == want


def test_misspelt_plugin_is_answered_with_a_guess() -> None:
    with pytest.raises(ConfigError) as caught:
        expand_plugins(Plugins(filter=plugin_set("NodePort")), KNOWN, scheduler_name="x")
    assert caught.value.__notes__ == ["did you mean 'NodePorts'?"]


def profile(name: str, custom: Plugins | None = None, **args: object) -> KubeSchedulerProfile:
    return KubeSchedulerProfile(
        scheduler_name=name,
        plugins=merge_plugins(default_plugins(), custom or Plugins()),
        plugin_config=tuple(PluginConfig(plugin, value) for plugin, value in args.items()),
    )


MINE = Plugins(multi_point=plugin_set("Mine", "PrioritySort"))
CROSS_PROFILE_ERRORS: dict[str, tuple[tuple[KubeSchedulerProfile, ...], str]] = {
    "none": ((), "at least one profile is required"),
    "unnamed": ((profile(""),), "initializing profiles: scheduler name is needed"),
    "same name": (
        (profile("a"), profile("a")),
        'initializing profiles: duplicate profile with scheduler name "a"',
    ),
    "different queue orders": (
        (profile("a"), profile("b", MINE)),
        'initializing profiles: different queue sort plugins for profile "b": "Mine", '
        'first: "PrioritySort"',
    ),
    "different arguments of the queue order": (
        (profile("a", MINE, Mine=1), profile("b", MINE, Mine=2)),
        'initializing profiles: different queue sort plugin args for profile "b"',
    ),
    "broken second profile": (
        (profile("a"), profile("b", Plugins(filter=plugin_set("Nope")))),
        "initializing profiles: creating profile for scheduler name b: "
        'FilterPlugin "Nope" does not exist',
    ),
}


@pytest.mark.parametrize(
    ("profiles", "want"), CROSS_PROFILE_ERRORS.values(), ids=CROSS_PROFILE_ERRORS
)
def test_incompatible_profiles_are_refused(
    profiles: tuple[KubeSchedulerProfile, ...], want: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        expand_profiles(profiles, KNOWN)
    assert str(caught.value) == want


def test_profiles_that_agree_are_expanded_by_name() -> None:
    found = expand_profiles((profile("a", MINE), profile("b", MINE)), KNOWN)
    assert list(found) == ["a", "b"]
    assert found["b"]["queueSort"] == (PluginRef("Mine"),)


names = st.sampled_from(["A", "B", "C", "D", "E", "*"])
sets = st.builds(
    PluginSet,
    enabled=st.lists(st.builds(PluginRef, names, st.integers(0, 3)), max_size=5).map(tuple),
    disabled=st.lists(st.builds(PluginRef, names), max_size=3).map(tuple),
)


@given(sets, sets)
def test_merging_retains_custom_entries_and_adds_defaults_only(
    defaults: PluginSet, custom: PluginSet
) -> None:
    merged = merge_plugin_set(defaults, custom)
    assert {*custom.enabled} <= {*merged.enabled} <= {*custom.enabled, *defaults.enabled}
    disabled = {ref.name for ref in merged.disabled}
    for ref in {*merged.enabled} - {*custom.enabled}:
        assert not disabled & {ref.name, "*"}


@given(sets)
def test_merging_with_nothing_changes_only_weights_of_disabled(custom: PluginSet) -> None:
    merged = merge_plugin_set(PluginSet(), custom)
    assert merged.enabled == custom.enabled
    assert [ref.name for ref in merged.disabled] == [ref.name for ref in custom.disabled]


in_tree = st.sampled_from(sorted(IN_TREE_EXTENSION_POINTS))
in_tree_refs = st.builds(PluginRef, in_tree, st.integers(0, 5))
in_tree_sets = st.builds(
    PluginSet,
    enabled=st.lists(in_tree_refs, max_size=4, unique_by=lambda ref: ref.name).map(tuple),
    disabled=st.lists(in_tree.map(PluginRef) | st.just(PluginRef("*")), max_size=2).map(tuple),
)


@given(in_tree_sets, in_tree_sets)
def test_expansion_runs_each_plugin_once_and_only_where_it_belongs(
    multi_point: PluginSet, score: PluginSet
) -> None:
    plugins = merge_plugins(default_plugins(), Plugins(multi_point=multi_point, score=score))
    try:
        points = expand_plugins(plugins, IN_TREE_EXTENSION_POINTS, scheduler_name="x")
    except ConfigError:
        return
    assert list(points) == list(EXTENSION_POINTS)
    for point, found in points.items():
        assert len({ref.name for ref in found}) == len(found)
        assert all(point in IN_TREE_EXTENSION_POINTS[ref.name] for ref in found)
        assert all((ref.weight != 0) == (point in ("score", "placementScore")) for ref in found)
