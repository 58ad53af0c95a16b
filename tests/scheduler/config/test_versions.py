"""Emulated versions, and the feature gates of each.

docs/reference/01 §11.2, §16; §17 row 77.
"""

from __future__ import annotations

import pytest

from kubesched.errors import ConfigError
from kubesched.scheduler.config import default_configuration, parse_feature_gates
from kubesched.scheduler.config.feature_gate_history import HISTORY
from kubesched.scheduler.config.feature_gates import FEATURES, Stage, features_at
from kubesched.scheduler.config.versions import (
    EffectiveVersion,
    MinorVersion,
    check_reported_version,
    effective_version,
)

V133, V134, V135, V136 = (MinorVersion(1, minor) for minor in range(33, 37))

READ = {
    "nothing given": ([], [], EffectiveVersion(V136, V135)),
    "an emulated version moves the other one": (["1.35"], [], EffectiveVersion(V135, V134)),
    "with the component": (["kube=1.34"], [], EffectiveVersion(V134, V133)),
    "with a v and a patch of zero": (["v1.34.0"], [], EffectiveVersion(V134, V133)),
    "never before the oldest": (["1.33"], [], EffectiveVersion(V133, V133)),
    "both given": (["1.35"], ["1.33"], EffectiveVersion(V135, V133)),
}


@pytest.mark.parametrize(("emulated", "compatible", "want"), READ.values(), ids=READ)
def test_read(emulated: list[str], compatible: list[str], want: EffectiveVersion) -> None:
    version = effective_version(emulated, compatible)
    assert version == want
    assert list(version.problems()) == []


REFUSED = {
    "a patch release": (["1.35.2"], "patch version not allowed, got: kube=1.35.2"),
    "two versions": (["1.35", "1.34"], "duplicate version flag, kube=1.35 and kube=1.34"),
    "another component": (["wardle=1.2"], "component not registered: wardle"),
    "a word": (["new"], 'could not parse "new" as version'),
    "one number": (["1"], 'illegal version string "1"'),
    "a leading zero": (["01.35"], 'illegal zero-prefixed version component "01" in "01.35"'),
}


@pytest.mark.parametrize(("emulated", "want"), REFUSED.values(), ids=REFUSED)
def test_refused(emulated: list[str], want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        effective_version(emulated, [])
    assert str(caught.value) == want


def test_versions_out_of_range_are_all_reported() -> None:
    assert list(effective_version(["1.28"], []).problems()) == [
        "emulation version 1.28 is not between [1.33, 1.36.0]",
        "minCompatibilityVersion version 1.33 is not between [1.33, 1.28]",
    ]
    assert list(effective_version(["1.34"], ["1.35"]).problems()) == [
        "minCompatibilityVersion version 1.35 is not between [1.33, 1.34]"
    ]


def test_a_gate_has_the_stage_of_the_emulated_version() -> None:
    version = effective_version(["1.34"], [])
    gates = parse_feature_gates(["DRAConsumableCapacity=true"], version=version)
    assert gates.enabled("DRAConsumableCapacity")
    assert not parse_feature_gates([], version=version).enabled("DRAConsumableCapacity")
    # Locked since 1.35 only.
    off = (
        "DynamicResourceAllocation",
        "DRAAdminAccess",
        "DRAPrioritizedList",
        "DRASchedulerFilterTimeout",
    )
    gates = parse_feature_gates([f"{name}=false" for name in off], version=version)
    assert not gates.enabled("DynamicResourceAllocation")


@pytest.mark.parametrize(
    ("emulated", "streams"), [("1.33", False), ("1.34", False), ("1.35", True)]
)
def test_informers_stream_their_lists_since_1_35(emulated: str, streams: bool) -> None:
    gates = parse_feature_gates([], version=effective_version([emulated], []))
    assert gates.enabled("WatchListClient") is streams


def test_a_gate_that_did_not_exist_cannot_be_set() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(["GenericWorkload=true"], version=effective_version(["1.34"], []))
    assert str(caught.value) == (
        "cannot set feature gate GenericWorkload to true, feature is PreAlpha at emulated "
        "version 1.34, min compatibility version 1.33"
    )


def test_an_emulated_version_has_its_default_plugins() -> None:
    gates = parse_feature_gates([], version=effective_version(["1.33"], []))
    plugins = default_configuration(gates).profiles[0].plugins
    names = [ref.name for ref in plugins.multi_point.enabled]
    assert "DynamicResources" not in names
    assert "NodeDeclaredFeatures" not in names


def test_all_alpha_means_that_of_the_emulated_version() -> None:
    version = effective_version(["1.35"], [])
    gates = parse_feature_gates(["AllAlpha=true"], version=version)
    assert gates.enabled("NodeDeclaredFeatures")
    assert not gates.enabled("TopologyAwareWorkloadScheduling")


def test_the_history_leads_to_the_present() -> None:
    assert HISTORY.keys() <= FEATURES.keys()
    order = [Stage.PRE_ALPHA, Stage.ALPHA, Stage.BETA, Stage.GA]
    for name in HISTORY:
        stages = [features_at(version)[name].stage for version in (V133, V134, V135, V136)]
        assert [order.index(stage) for stage in stages] == sorted(map(order.index, stages)), name
        assert len({features_at(v)[name] for v in (V133, V134, V135, V136)}) > 1, name


def test_a_reported_version_differs_in_its_suffix_only() -> None:
    check_reported_version("v1.36.4")
    check_reported_version("v1.36.4-company.1+build")
    with pytest.raises(ConfigError) as caught:
        check_reported_version("v1.36.5")
    assert str(caught.value) == (
        'version "v1.36.5" must match major/minor/patch of default version "v1.36.4"'
    )
    with pytest.raises(ConfigError, match=r'^illegal version string "v1\.36"$'):
        check_reported_version("v1.36")
