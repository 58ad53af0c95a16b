"""Building a scheduler in Python (docs/reference/01 §15)."""

from __future__ import annotations

import functools
import random
import subprocess
import sys
from datetime import timedelta

import msgspec
import pytest

import kubesched
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import ManualClock
from kubesched.framework import Plugin
from kubesched.scheduler.config import ExtenderConfig, default_configuration, default_profile
from kubesched.scheduler.options import scheduler_configuration


class PreferredNodeArgs(msgspec.Struct, rename="camel"):
    node_name: str
    points: int = 10


class PreferredNode(Plugin):
    name = "PreferredNode"
    args_type = PreferredNodeArgs

    def score(self, *_: object) -> int:
        return 0


def test_without_options_the_configuration_is_the_default() -> None:
    assert scheduler_configuration() == default_configuration()


def test_options_change_the_configuration() -> None:
    configuration = scheduler_configuration(
        parallelism=4,
        percentage_of_nodes_to_score=30,
        pod_initial_backoff_seconds=2,
        pod_max_backoff_seconds=20,
        extenders=[ExtenderConfig(url_prefix="http://a"), {"urlPrefix": "http://b"}],
    )
    assert configuration.parallelism == 4
    assert configuration.percentage_of_nodes_to_score == 30
    assert configuration.pod_initial_backoff_seconds == 2
    assert configuration.pod_max_backoff_seconds == 20
    assert [extender.url_prefix for extender in configuration.extenders] == ["http://a", "http://b"]


def test_profiles_are_values_or_dicts() -> None:
    own = {"schedulerName": "own", "percentageOfNodesToScore": 50}
    configuration = scheduler_configuration(profiles=[default_profile(), own])
    first, second = configuration.profiles
    assert first == default_profile()
    assert second.scheduler_name == "own"
    assert second.plugins == first.plugins


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "a value out of range": (
        {"parallelism": 0},
        "parallelism: Invalid value: 0: should be an integer value greater than zero",
    ),
    "an unknown field": (
        {"profiles": [{"schedulerNam": "x"}]},
        'strict decoding error: unknown field "profiles[0].schedulerNam"',
    ),
    "two profiles of one name": (
        {"profiles": [default_profile(), default_profile()]},
        "profiles[1].schedulerName: Duplicate value: {}",
    ),
}


@pytest.mark.parametrize(("given", "want"), REFUSED.values(), ids=REFUSED)
def test_refused(given: dict[str, object], want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scheduler_configuration(**given)  # type: ignore[arg-type]
    assert str(caught.value) == want


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("WithName", "WithName was removed: set scheduler_name in profiles"),
        (
            "WithPreemptionDisabled",
            "WithPreemptionDisabled was removed: disable the plugin DefaultPreemption in profiles",
        ),
    ],
)
def test_options_of_earlier_releases_have_successors(name: str, note: str) -> None:
    with pytest.raises(TypeError) as caught:
        kubesched.Scheduler(api(), **{name: True})  # type: ignore[misc]
    assert caught.value.__notes__ == [note]


def api() -> LocalApi:
    return LocalApi(Store(random.Random(0)), ManualClock())


def test_a_scheduler_in_three_lines() -> None:
    scheduler = kubesched.Scheduler(api())
    assert list(scheduler.profiles) == ["default-scheduler"]


def test_a_scheduler_runs_an_out_of_tree_plugin() -> None:
    scheduler = kubesched.Scheduler(
        api(),
        profiles=[
            {
                "plugins": {"score": {"enabled": [{"name": "PreferredNode", "weight": 5}]}},
                "pluginConfig": [{"name": "PreferredNode", "args": {"nodeName": "a"}}],
            }
        ],
        out_of_tree_registry={"PreferredNode": PreferredNode},
        pod_max_in_unschedulable_pods_duration=timedelta(seconds=90),
    )
    plugins = scheduler.profiles["default-scheduler"].plugins
    assert plugins.by_name["PreferredNode"].args == PreferredNodeArgs("a")
    assert plugins.score_weights["PreferredNode"] == 5


class Tuned(Plugin):
    name = "Tuned"

    def __init__(self, args: object, handle: object, points: int) -> None:
        super().__init__(args, handle)  # type: ignore[arg-type]
        self.points = points

    def score(self, *_: object) -> int:
        return self.points


def test_plugins_are_built_by_functions_and_partials() -> None:
    scheduler = kubesched.Scheduler(
        api(),
        profiles=[
            {
                "plugins": {
                    "multiPoint": {"enabled": [{"name": "High"}, {"name": "Low", "weight": 3}]},
                    "score": {"enabled": [{"name": "Plain", "weight": 2}]},
                },
                "pluginConfig": [{"name": "Plain", "args": {"points": 4}}],
            }
        ],
        out_of_tree_registry={
            "High": functools.partial(Tuned, points=90),
            "Low": lambda args, handle: Tuned(args, handle, 10),
            "Plain": lambda args, handle: Tuned(args, handle, args["points"]),
        },
    )
    plugins = scheduler.profiles["default-scheduler"].plugins
    built = {name: plugins.by_name[name] for name in ("High", "Low", "Plain")}
    assert {name: getattr(plugin, "points") for name, plugin in built.items()} == {  # noqa: B009
        "High": 90,
        "Low": 10,
        "Plain": 4,
    }
    assert [plugin.name for plugin in built.values()] == ["High", "Low", "Plain"]
    assert {name: plugins.score_weights[name] for name in built} == {
        "High": 1,
        "Low": 3,
        "Plain": 2,
    }
    assert Tuned.name == "Tuned"


def test_a_factory_that_returns_no_plugin_is_reported() -> None:
    with pytest.raises(ConfigError) as caught:
        kubesched.Scheduler(
            api(),
            profiles=[{"plugins": {"multiPoint": {"enabled": [{"name": "Odd"}]}}}],
            out_of_tree_registry={"Odd": lambda args, handle: None},  # type: ignore[arg-type, return-value]
        )
    assert str(caught.value).endswith(
        'initializing plugin "Odd": its factory returned None, which is not a Plugin'
    )


def test_a_plugin_that_exists_cannot_be_added() -> None:
    with pytest.raises(ConfigError, match=r"^a plugin named NodeName already exists$"):
        kubesched.Scheduler(api(), out_of_tree_registry={"NodeName": PreferredNode})


def test_a_plugin_that_cannot_be_built_is_reported() -> None:
    class RaisesOnBuild(Plugin):
        name = "RaisesOnBuild"

        def __init__(self, args: object, handle: object) -> None:
            raise KeyError("fuse")

        def score(self, *_: object) -> int:
            return 0

    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "RaisesOnBuild"}]}}}
    with pytest.raises(ConfigError) as caught:
        kubesched.Scheduler(
            api(), profiles=[profile], out_of_tree_registry={"RaisesOnBuild": RaisesOnBuild}
        )
    assert str(caught.value) == (
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        "initializing plugin \"RaisesOnBuild\": KeyError: 'fuse'"
    )


def test_a_plugin_enabled_at_a_point_without_its_method_is_an_error() -> None:
    profile = {
        "plugins": {"filter": {"enabled": [{"name": "PreferredNode"}]}},
        "pluginConfig": [{"name": "PreferredNode", "args": {"nodeName": "a"}}],
    }
    with pytest.raises(ConfigError) as caught:
        kubesched.Scheduler(
            api(), profiles=[profile], out_of_tree_registry={"PreferredNode": PreferredNode}
        )
    assert str(caught.value).endswith('plugin "PreferredNode" does not extend FilterPlugin plugin')
    assert caught.value.__notes__ == ["PreferredNode has methods for: score"]


def test_the_api_alone_does_not_load_the_scheduler() -> None:
    program = (
        "import sys, kubesched, kubesched.api\n"
        "print([name for name in sys.modules if name.startswith('kubesched.scheduler')])\n"
        "print(kubesched.Scheduler.__module__)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\nkubesched.scheduler.scheduler\n"


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'scheduler_'"):
        _ = kubesched.scheduler_
