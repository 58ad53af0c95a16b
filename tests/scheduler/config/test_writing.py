"""The written configuration, extenders' effects, and arguments of own plugins."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.errors import ConfigError
from kubesched.scheduler.config import (
    ExtenderConfig,
    ExtenderManagedResource,
    KubeSchedulerConfiguration,
    as_written,
    complete_configuration,
    configuration_from_builtins,
    default_configuration,
    load_configuration,
    ordered_extenders,
    written,
)
from kubesched.scheduler.config.config_struct import SECOND, DurationNs, Int32

HEAD = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


class CostArgs(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Arguments of a plugin from outside."""

    currency: str
    limit: Int32 = 5
    zones: dict[str, int] = {}
    patience_ns: DurationNs | None = msgspec.field(name="patience", default=None)


class LabelArgs(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments that all have defaults."""

    label: str = "team"


KNOWN = {"Cost": CostArgs, "Label": LabelArgs}


def load(**profile: Any) -> KubeSchedulerConfiguration:
    return configuration_from_builtins({**HEAD, "profiles": [profile]}, known_args=KNOWN)


def entry(args: Any, name: str = "Cost") -> list[dict[str, Any]]:
    return [{"name": name, "args": args}]


def test_arguments_of_out_of_tree_plugins_have_their_type() -> None:
    (profile,) = load(
        pluginConfig=entry({"currency": "EUR", "zones": {"a": 1}, "patience": "2s"})
    ).profiles
    assert profile.args_of("Cost") == CostArgs(
        currency="EUR", zones={"a": 1}, patience_ns=2 * SECOND
    )


OWN_ERRORS = {
    "unknown field": (
        {"currency": "EUR", "limits": 1},
        "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: "
        'decoding args for plugin Cost: strict decoding error: unknown field "limits"',
    ),
    "wrong type": (
        {"currency": 5},
        "decoding .profiles[0].pluginConfig[0]: decoding args for plugin Cost: currency: must be a "
        "text, not a number",
    ),
    "field that the type demands": (
        {},
        "decoding .profiles[0].pluginConfig[0]: decoding args for plugin Cost: "
        "currency: must be given",
    ),
    "arguments of another plugin": (
        {"kind": "LabelArgs"},
        "decoding .profiles[0].pluginConfig[0]: args for plugin Cost were not of type "
        "CostArgs.kubescheduler.config.k8s.io, got LabelArgs.kubescheduler.config.k8s.io",
    ),
}


@pytest.mark.parametrize(("args", "want"), OWN_ERRORS.values(), ids=OWN_ERRORS)
def test_arguments_of_out_of_tree_plugins_are_decoded_strictly(args: Any, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(pluginConfig=entry(args))
    assert str(caught.value) == want


def test_out_of_tree_plugins_get_default_arguments() -> None:
    (profile,) = load(plugins={"multiPoint": {"enabled": [{"name": "Label"}]}}).profiles
    assert profile.args_of("Label") == LabelArgs()
    with pytest.raises(ConfigError) as caught:
        load(plugins={"score": {"enabled": [{"name": "Cost"}]}})
    assert str(caught.value) == (
        "profiles[0].pluginConfig: Required value: plugin Cost has arguments to be set"
    )


def test_written_arguments_are_typed_if_the_type_is_declared() -> None:
    configuration = load(
        plugins={
            "multiPoint": {
                "enabled": [{"name": "Cost"}, {"name": "Other"}, {"name": "Bare"}],
                "disabled": [{"name": "InterPodAffinity"}],
            }
        },
        pluginConfig=[
            *entry({"z": None, "b": [1]}, "Other"),
            *entry({"currency": "EUR", "patience": "90s"}),
            *entry(None, "Bare"),
            *entry({"hardPodAffinityWeight": 3}, "InterPodAffinity"),
        ],
    )
    (profile,) = yaml.safe_load(written(configuration))["profiles"]
    args = {item["name"]: item["args"] for item in profile["pluginConfig"]}
    assert list(args) == sorted(args)
    assert args["Other"] == {"b": [1], "z": None}
    assert args["Cost"] == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "CostArgs",
        "currency": "EUR",
        "limit": 5,
        "zones": {},
        "patience": "1m30s",
    }
    assert "Bare" not in args
    assert "InterPodAffinity" not in args, "the plugin is not in the profile"


def test_core_types_in_arguments_are_written_in_full() -> None:
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0}],
    }
    configuration = load(pluginConfig=entry({"addedAffinity": affinity}, "NodeAffinity"))
    (profile,) = yaml.safe_load(written(configuration))["profiles"]
    args = next(i["args"] for i in profile["pluginConfig"] if i["name"] == "NodeAffinity")
    assert args["addedAffinity"] == {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}],
    }


def test_profile_percentage_of_zero_is_written() -> None:
    assert "- percentageOfNodesToScore: 0\n" in written(load(percentageOfNodesToScore=0))


def test_rule_for_ties_is_written_if_it_was_set() -> None:
    assert "tieBreak: NodeName\n" in written(load(tieBreak="NodeName"))
    assert "tieBreak" not in written(load(percentageOfNodesToScore=0))


def test_extender_is_written_without_empty_fields() -> None:
    tls = {"insecure": True, "caData": "aGVsbG8="}
    extender = {
        "urlPrefix": "http://x",
        "enableHTTPS": True,
        "httpTimeout": "100ms",
        "tlsConfig": tls,
        "managedResources": [{"name": "example.com/a"}],
    }
    configuration = configuration_from_builtins({**HEAD, "extenders": [extender]})
    assert yaml.safe_load(written(configuration))["extenders"] == [extender]


def test_rate_is_written_as_a_number_of_32_bits() -> None:
    client = replace(default_configuration().client_connection, qps=0.1)
    text = written(replace(default_configuration(), client_connection=client))
    assert "  qps: 0.1\n" in text


def test_resources_of_extenders_replace_those_ignored() -> None:
    args = {"ignoredResources": ["a"], "ignoredResourceGroups": ["g"]}
    foo = {"name": "example.com/foo", "ignoredByScheduler": True}
    configuration = configuration_from_builtins(
        {
            **HEAD,
            "profiles": [{"pluginConfig": entry(args, "NodeResourcesFit")}],
            "extenders": [{"managedResources": [foo, {"name": "example.com/bar"}]}],
        }
    )
    completed = complete_configuration(configuration)
    fit = completed.profiles[0].args_of("NodeResourcesFit")
    assert fit.ignored_resources == ("example.com/foo",)
    assert fit.ignored_resource_groups == ("g",)
    assert completed.extenders[0].http_timeout_ns == 5 * SECOND


def test_extenders_that_ignore_resources_need_the_plugin() -> None:
    foo = ExtenderManagedResource(name="example.com/foo", ignored_by_scheduler=True)
    configuration = load(plugins={"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}})
    with pytest.raises(ConfigError) as caught:
        complete_configuration(
            replace(configuration, extenders=(ExtenderConfig(managed_resources=(foo,)),))
        )
    assert str(caught.value) == (
        "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
    )


def test_extenders_that_may_fail_come_last() -> None:
    a, b = ExtenderConfig(url_prefix="a", ignorable=True), ExtenderConfig(url_prefix="b")
    c, d = ExtenderConfig(url_prefix="c", ignorable=True), ExtenderConfig(url_prefix="d")
    assert ordered_extenders((a, b, c, d)) == (b, d, a, c)


members = st.fixed_dictionaries(
    {},
    optional={
        "parallelism": st.integers(1, 64),
        "percentageOfNodesToScore": st.integers(0, 100),
        "podMaxBackoffSeconds": st.integers(1, 2**40),
        "enableProfiling": st.booleans(),
        "delayCacheUntilActive": st.booleans(),
        "clientConnection": st.fixed_dictionaries(
            {
                "kubeconfig": st.text(
                    st.characters(codec="ascii", categories=("L", "P", "Nd", "Zs"))
                )
            },
            optional={"qps": st.integers(1, 1000), "burst": st.integers(0, 9)},
        ),
        "profiles": st.lists(
            st.fixed_dictionaries(
                {"schedulerName": st.sampled_from(["a", "b", "yes", "1"])},
                optional={
                    "percentageOfNodesToScore": st.integers(0, 100),
                    "plugins": st.just({"multiPoint": {"disabled": [{"name": "*", "weight": 3}]}}),
                    "pluginConfig": st.just(entry({"currency": "EUR"})),
                },
            ),
            max_size=3,
            unique_by=lambda profile: profile["schedulerName"],
        ),
    },
)


@settings(deadline=None)
@given(members)
def test_a_written_configuration_loads_as_the_same_configuration(
    given_members: dict[str, Any],
) -> None:
    configuration = configuration_from_builtins({**HEAD, **given_members}, known_args=KNOWN)
    completed = as_written(configuration)
    again = load_configuration(written(configuration), known_args=KNOWN)
    assert as_written(again) == completed
    assert written(again) == written(configuration)
