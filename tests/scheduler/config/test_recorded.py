"""Configurations and flags against recordings (goldens/config.jsonl, api/configz.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.errors import ConfigError
from kubesched.scheduler.config import (
    KubeSchedulerConfiguration,
    complete_configuration,
    default_configuration,
    load_configuration,
    load_configuration_file,
    parse_feature_gates,
    versioned,
    written,
)

KUBECONFIG = "/etc/kubernetes/scheduler.conf"
# Decided by the command line itself, before there is a configuration.
NOT_ABOUT_CONFIGURATION = {
    "flag-unknown",
    "flag-secure-port-bad",
    "flag-logging-format",
    "flag-vmodule",
    "flag-config-missing",
}


def with_kubeconfig(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    client = configuration.client_connection
    if client.kubeconfig:
        return configuration
    return replace(configuration, client_connection=replace(client, kubeconfig=KUBECONFIG))


def outcome(case: dict[str, Any]) -> tuple[int, str]:
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in case["flags"])
    try:
        gates = parse_feature_gates([flags[f] for f in flags if f == "feature-gates"])
        configuration = load_configuration(case["config"], flags=flags, gates=gates)
        completed = complete_configuration(configuration, gates=gates)
        return 0, written(with_kubeconfig(completed))
    except ConfigError as exc:
        return 1, str(exc)


def recorded(case: dict[str, Any]) -> tuple[int, str]:
    if case["exit"] == 0:
        return 0, case["written"]
    (line,) = case["stderr"]
    return 1, json.loads(line.removeprefix('"command failed" err='))


def test_every_recorded_configuration_is_taken_or_refused_with_the_same_text(goldens: Path) -> None:
    lines = (goldens / "config.jsonl").read_text().splitlines()
    cases = [case for case in map(json.loads, lines) if case["name"] not in NOT_ABOUT_CONFIGURATION]
    assert len(cases) == 82
    different = {c["name"]: (outcome(c), recorded(c)) for c in cases if outcome(c) != recorded(c)}
    assert different == {}


def test_configz_serves_the_same_bytes(goldens: Path) -> None:
    want = (goldens / "api" / "configz.json").read_text().strip()
    served = {"componentconfig": versioned(with_kubeconfig(default_configuration()))}
    assert json.dumps(served, separators=(",", ":")) == want


def test_missing_file_is_reported_as_the_reference_does() -> None:
    with pytest.raises(ConfigError, match=r"^open /nope\.yaml: no such file or directory$"):
        load_configuration_file("/nope.yaml")
