"""Flags over files (docs/reference/01 §12; §17 rows 71-74)."""

from __future__ import annotations

import pytest

from kubesched.errors import ConfigError
from kubesched.scheduler.config import default_configuration, load_configuration
from kubesched.scheduler.config.config_struct import SECOND

FILE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_deprecated_flags_are_ignored_with_a_file() -> None:
    flags = {"kubeconfig": "foo", "profiling": "false", "kube-api-qps": "1"}
    assert load_configuration(FILE, flags=flags) == default_configuration()


def test_deprecated_flags_hold_without_a_file() -> None:
    flags = {
        "kubeconfig": "foo",
        "profiling": "f",
        "contention-profiling": "0",
        "kube-api-qps": "1.5",
        "kube-api-burst": "010",
        "kube-api-content-type": "application/json",
        "secure-port": "not of interest here",
    }
    configuration = load_configuration(None, flags=flags)
    client = configuration.client_connection
    assert (client.kubeconfig, client.content_type) == ("foo", "application/json")
    assert (client.qps, client.burst) == (1.5, 8)
    assert not configuration.enable_profiling
    assert not configuration.enable_contention_profiling


def test_leader_election_flags_override_the_file() -> None:
    flags = {
        "leader-elect": "false",
        "leader-elect-lease-duration": "2h",
        "leader-elect-renew-deadline": "1h",
        "leader-elect-retry-period": "3s",
        "leader-elect-resource-lock": "leases",
        "leader-elect-resource-name": "n",
        "leader-elect-resource-namespace": "ns",
    }
    text = FILE + "leaderElection: {leaderElect: true, resourceName: x}"
    election = load_configuration(text, flags=flags).leader_election
    assert not election.leader_elect
    assert election.lease_duration_ns == 7200 * SECOND
    assert election.renew_deadline_ns == 3600 * SECOND
    assert election.retry_period_ns == 3 * SECOND
    assert (election.resource_name, election.resource_namespace) == ("n", "ns")


def test_flags_are_validated_with_a_file_only() -> None:
    flags = {"leader-elect-lease-duration": "5s"}
    with pytest.raises(ConfigError) as caught:
        load_configuration(FILE, flags=flags)
    assert str(caught.value) == (
        'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'
    )
    assert load_configuration(None, flags=flags).leader_election.lease_duration_ns == 5 * SECOND


ERRORS = {
    "boolean": ("leader-elect", "x", 'strconv.ParseBool: parsing "x": invalid syntax'),
    "duration": ("leader-elect-retry-period", "x", 'time: invalid duration "x"'),
    "integer": ("kube-api-burst", "1.5", 'strconv.ParseInt: parsing "1.5": invalid syntax'),
    "large integer": (
        "kube-api-burst",
        "2147483648",
        'strconv.ParseInt: parsing "2147483648": value out of range',
    ),
    "number": ("kube-api-qps", "x", 'strconv.ParseFloat: parsing "x": invalid syntax'),
}


@pytest.mark.parametrize(("flag", "value", "want"), ERRORS.values(), ids=ERRORS)
def test_refused(flag: str, value: str, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_configuration(None, flags={flag: value})
    assert str(caught.value) == f'invalid argument "{value}" for "--{flag}" flag: {want}'
