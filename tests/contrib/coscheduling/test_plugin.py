"""Coscheduling without other plugins: arguments, order in the queue, and the plugin contract."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kubesched.contrib.coscheduling.group_spec import GROUP_LABEL
from kubesched.contrib.coscheduling.group_status import next_status
from kubesched.contrib.coscheduling.plugin import Coscheduling
from kubesched.contrib.coscheduling.room import places_for
from kubesched.errors import ConfigError
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.config.load import configuration_from_builtins
from kubesched.testing import FakeHandle, check_plugin, make_node, make_pod, make_view


def test_the_plugin_fulfils_the_contract() -> None:
    check_plugin(Coscheduling)


def load(args: dict[str, Any]) -> Any:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "Coscheduling", "args": args}]}],
    }
    known = {"Coscheduling": Coscheduling.args_type}
    return configuration_from_builtins(document, known_args=known)  # type: ignore[arg-type]


def test_arguments_with_version_and_kind_are_read() -> None:
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "CoschedulingArgs",
        "permitWaitingTimeSeconds": 10,
    }
    configuration = load(args)
    (given,) = [
        each.args for each in configuration.profiles[0].plugin_config if each.name == "Coscheduling"
    ]
    assert given.permit_waiting_time_seconds == 10


@pytest.mark.parametrize(
    "args", [{"permitWaitingTimeSeconds": -1}, {"podGroupRejectPercentage": 101}]
)
def test_bad_arguments_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        load(args)


def test_members_of_a_group_stay_together_in_the_queue() -> None:
    plugin = Coscheduling(None, FakeHandle())
    queued = []
    for second, (name, group) in enumerate(
        [("a0", "a"), ("b0", "b"), ("p", ""), ("a1", "a"), ("b1", "b")]
    ):
        pod = make_pod(name, labels={GROUP_LABEL: group} if group else {})
        queued.append(QueuedPodInfo(pod, second + 1))
    ordered = sorted(queued, key=plugin.sort_key)
    assert [each.pod.metadata.name for each in ordered] == ["a0", "a1", "b0", "b1", "p"]


@pytest.mark.parametrize(
    ("phases", "want"),
    [
        ({}, "Pending"),
        ({"Pending": 1, "Running": 1}, "Pending"),
        ({"Pending": 2, "Running": 1}, "Scheduling"),
        ({"Running": 3}, "Running"),
        ({"Running": 2, "Succeeded": 1}, "Running"),
        ({"Running": 2, "Failed": 1}, "Failed"),
        ({"Succeeded": 3}, "Finished"),
    ],
)
def test_phases_of_a_group_of_three(phases: dict[str, int], want: str) -> None:
    assert next_status({}, 3, Counter(phases), "", 0)["phase"] == want


def test_final_phases_stay() -> None:
    status = {"phase": "Failed", "failed": 1}
    assert next_status(status, 1, Counter({"Running": 1}), "", 0) is status


def test_places_are_counted_on_each_node() -> None:
    """A node with 3 CPUs takes one pod of 2 CPUs, however much is left on the others."""
    nodes = make_view(
        make_node("a", cpu="3", memory="8Gi", pods="10"),
        make_node("b", cpu="5", memory="8Gi", pods="10"),
        make_node("c", cpu="8", memory="8Gi", pods="1"),
    )
    assert places_for(nodes, {"cpu": 2000}, evicting=False) == 1 + 2 + 1
