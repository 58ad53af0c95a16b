"""Rules over a whole configuration (docs/reference/01 §3.2, §4.2, §9.1, §10.2)."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.scheduler.config import (
    InvalidConfigurationError,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    configuration_from_builtins,
    default_profile,
    validate_configuration,
)
from kubesched.scheduler.config.field_errors import (
    forbidden,
    invalid,
    raise_all,
    required,
    unsupported,
)

HEAD = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
REMOVED = (
    'was invalid in version "v1" (KubeSchedulerConfiguration is version '
    '"kubescheduler.config.k8s.io/v1")'
)


def load(**members: Any) -> KubeSchedulerConfiguration:
    return configuration_from_builtins({**HEAD, **members})


def profile(name: str | None = None, **members: Any) -> dict[str, Any]:
    return {**({} if name is None else {"schedulerName": name}), **members}


def plugins(**sets: Any) -> dict[str, Any]:
    return {"plugins": sets}


def enabled(*names: str) -> dict[str, Any]:
    return {"enabled": [{"name": name} for name in names]}


def extender(**members: Any) -> dict[str, Any]:
    return {"urlPrefix": "http://localhost", **members}


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "negative burst": (
        {"clientConnection": {"burst": -1}},
        "clientConnection.burst: Invalid value: -1: must be non-negative",
    ),
    "negative durations, each by its name": (
        {
            "leaderElection": {
                "leaseDuration": "-1s",
                "renewDeadline": "-1m",
                "retryPeriod": "-1ms",
            }
        },
        '[leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero, '
        'leaderElection.renewDeadline: Invalid value: "-1m0s": must be greater than zero, '
        'leaderElection.retryPeriod: Invalid value: "-1ms": must be greater than zero]',
    ),
    "lease no longer than the deadline, which is printed": (
        {"leaderElection": {"leaseDuration": "10s"}},
        'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
    ),
    "lock of another kind": (
        {"leaderElection": {"resourceLock": "configmaps"}},
        'leaderElection.resourceLock: Invalid value: "configmaps": '
        'resourceLock value must be "leases"',
    ),
    "no workers": (
        {"parallelism": 0},
        "parallelism: Invalid value: 0: should be an integer value greater than zero",
    ),
    "percentage beyond a hundred": (
        {"percentageOfNodesToScore": 101},
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ),
    "negative percentage of a profile": (
        {"profiles": [profile(percentageOfNodesToScore=-1)]},
        "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
    ),
    "unknown rule for ties": (
        {"profiles": [profile(tieBreak="Name")]},
        'profiles[0].tieBreak: Unsupported value: "Name": supported values: "Random", "NodeName"',
    ),
    "initial backoff above the default maximum": (
        {"podInitialBackoffSeconds": 20},
        "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to "
        "PodInitialBackoffSeconds",
    ),
    "explicitly unnamed profile": (
        {"profiles": [profile("")]},
        "profiles[0].schedulerName: Required value",
    ),
    "unnamed among others": (
        {"profiles": [profile(), profile("b")]},
        "profiles[0].schedulerName: Required value",
    ),
    "two unnamed profiles": (
        {"profiles": [profile(), profile()]},
        "[profiles[0].schedulerName: Required value, profiles[1].schedulerName: Required value, "
        "profiles[1].schedulerName: Duplicate value: {}]",
    ),
    "two profiles of one name": (
        {"profiles": [profile("a"), profile("a")]},
        "profiles[1].schedulerName: Duplicate value: {}",
    ),
    "removed plugin": (
        {"profiles": [profile(**plugins(filter=enabled("NodeName", "EBSLimits")))]},
        f'profiles[0].plugins.filter.enabled[1]: Invalid value: "EBSLimits": {REMOVED}',
    ),
    "arguments for a removed plugin": (
        {"profiles": [profile(pluginConfig=[{"name": "GCEPDLimits"}])]},
        f'profiles[0].pluginConfig[0]: Invalid value: "GCEPDLimits": {REMOVED}',
    ),
    "arguments twice": (
        {"profiles": [profile(pluginConfig=[{"name": "X"}, {"name": "X"}])]},
        'profiles[0].pluginConfig[1]: Duplicate value: "X"',
    ),
    "arguments under a name that only looks like a plugin": (
        {"profiles": [profile(pluginConfig=[{"name": "NodeResourcesFitArgs", "args": {"a": 1}}])]},
        'profiles[0].pluginConfig[0].args: Invalid value: {"a":1}: has to match plugin args',
    ),
    "two queue orders in the first profile": (
        {"profiles": [profile(**plugins(queueSort=enabled("A", "B")))]},
        "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: "
        "only one queue sort plugin can be enabled",
    ),
    "queue orders that differ": (
        {"profiles": [profile("a"), profile("b", **plugins(queueSort=enabled("Mine")))]},
        "profiles[1].plugins.queueSort: Invalid value: "
        '{"Enabled":[{"Name":"Mine","Weight":0}],"Disabled":null}: '
        "must be the same for all profiles",
    ),
    "arguments of the queue order that differ": (
        {
            "profiles": [
                profile(
                    name,
                    **plugins(queueSort=enabled("Mine")),
                    pluginConfig=[{"name": "Mine", "args": {"by": name}}],
                )
                for name in ("a", "b")
            ]
        },
        'profiles[1].pluginConfig.args: Invalid value: {"by":"b"}: '
        "queueSort must be the same for all profiles",
    ),
    "extender that scores without a weight": (
        {"extenders": [extender(prioritizeVerb="p", weight=-2)]},
        "extenders[0].weight: Invalid value: -2: must have a positive weight applied to it",
    ),
    "two binding extenders": (
        {"extenders": [extender(bindVerb="b"), extender(), extender(bindVerb="b")]},
        'extenders: Invalid value: "found 2 extenders implementing bind": '
        "only one extender can implement bind",
    ),
    "managed cpu": (
        {"extenders": [extender(managedResources=[{"name": "cpu"}])]},
        'extenders[0].managedResources[0].name: Invalid value: "cpu": '
        "is an invalid extended resource name",
    ),
    "managed twice": (
        {
            "extenders": [
                extender(managedResources=[{"name": "example.com/foo"}]),
                extender(managedResources=[{"name": "example.com/foo"}]),
            ]
        },
        'extenders[1].managedResources[0].name: Invalid value: "example.com/foo": '
        "duplicate extender managed resource name",
    ),
}


@pytest.mark.parametrize(("members", "want"), ERRORS.values(), ids=ERRORS)
def test_refused(members: dict[str, Any], want: str) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        load(**members)
    assert str(caught.value) == want


ACCEPTED: dict[str, dict[str, Any]] = {
    "anything about an election that is off": {
        "leaderElection": {"leaderElect": False, "leaseDuration": "-1s", "resourceLock": "x"}
    },
    "one profile without a name": {"profiles": [profile()]},
    "unknown plugins": {"profiles": [profile(**plugins(filter=enabled("Nope")))]},
    "removed plugin in multiPoint": {
        "profiles": [profile(**plugins(multiPoint=enabled("EBSLimits")))]
    },
    "same queue order in both profiles": {
        "profiles": [
            profile(name, **plugins(queueSort={**enabled("Mine"), "disabled": [{"name": "*"}]}))
            for name in ("a", "b")
        ]
    },
    "weightless extender that does not score": {"extenders": [extender(filterVerb="f")]},
    "extender without an address": {"extenders": [{}]},
    "wrong arguments of NodeResourcesFit, until it is built": {
        "profiles": [
            profile(
                pluginConfig=[
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Weird"}}}
                ]
            )
        ]
    },
}


@pytest.mark.parametrize("members", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(members: dict[str, Any]) -> None:
    load(**members)


def test_all_problems_are_reported_at_once_in_order() -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        load(
            extenders=[extender(prioritizeVerb="p")],
            podInitialBackoffSeconds=-1,
            parallelism=-1,
            profiles=[profile("")],
        )
    assert [error.path for error in caught.value.errors] == [
        "parallelism",
        "profiles[0].schedulerName",
        "podInitialBackoffSeconds",
        "extenders[0].weight",
    ]


def test_fields_that_a_file_cannot_empty_are_required() -> None:
    election = LeaderElectionConfiguration(
        resource_lock="", resource_name="", resource_namespace=""
    )
    with pytest.raises(InvalidConfigurationError) as caught:
        validate_configuration(KubeSchedulerConfiguration(leader_election=election))
    assert str(caught.value) == (
        "[leaderElection.resourceLock: Required value, "
        "leaderElection.resourceNamespace: Required value, "
        "leaderElection.resourceName: Required value, "
        'leaderElection.resourceLock: Invalid value: "": resourceLock value must be "leases", '
        "profiles: Required value]"
    )


def test_complete_configuration_passes() -> None:
    validate_configuration(KubeSchedulerConfiguration(profiles=(default_profile(),)))


RENDERED = {
    "text is quoted": (invalid("a", 'x"y', "bad"), r'a: Invalid value: "x\"y": bad'),
    "booleans are plain": (invalid("a", True, "bad"), "a: Invalid value: true: bad"),
    "nothing is the word null": (invalid("a", None, "bad"), 'a: Invalid value: "null": bad'),
    "required shows no value": (required("a.b"), "a.b: Required value"),
    "forbidden shows no value": (forbidden("a", "why"), "a: Forbidden: why"),
    "supported values are listed": (
        unsupported("a", "x", ("A", "B")),
        'a: Unsupported value: "x": supported values: "A", "B"',
    ),
}


@pytest.mark.parametrize(("error", "want"), RENDERED.values(), ids=RENDERED)
def test_rendering(error: object, want: str) -> None:
    assert str(error) == want


def test_equal_errors_are_reported_once() -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        raise_all([required("a"), required("a")])
    assert str(caught.value) == "a: Required value"
    raise_all([])
