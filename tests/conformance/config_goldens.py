"""Goldens of configurations: what `--write-config-to` writes, or the error it ends with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from kubesched.config import (
    KubeSchedulerConfiguration,
    check_profiles,
    effective_configuration,
    load_configuration_file,
    parse_feature_gates,
    written,
)
from kubesched.config.flags import DEPRECATED_FLAGS, LEADER_ELECTION_FLAGS
from kubesched.util.errors import ConfigError
from tests.conformance.comparison import Step, compare
from tests.conformance.goldens import read_lines

__all__ = ["run_config"]

_KUBECONFIG: Final = "/etc/kubernetes/scheduler.conf"
_KNOWN_FLAGS: Final = {*LEADER_ELECTION_FLAGS, *DEPRECATED_FLAGS, "feature-gates", "config"}
_COMMAND_FAILED: Final = re.compile(r'"command failed" err=("(?:[^"\\]|\\.)*")')


def run_config(path: Path) -> Iterator[Step]:
    for golden in read_lines(path):
        expected: dict[str, Any] = {"exit": golden["exit"]}
        if golden["exit"] == 0:
            expected["written"] = golden["written"]
        else:
            expected["error"] = _error_text("\n".join(golden["stderr"]))
        flags = _parse_flags(golden["flags"])
        needs = ("the command line",) if flags.keys() - _KNOWN_FLAGS else ()
        differences = () if needs else compare(expected, _outcome(golden["config"], flags))
        yield Step("config", golden["name"], "", differences, needs)


def _parse_flags(flags: list[str]) -> dict[str, str]:
    pairs = (flag.removeprefix("--").partition("=") for flag in flags)
    return {name: value for name, _, value in pairs}


def _error_text(stderr: str) -> str:
    """The error itself, without the log line around it."""
    match = _COMMAND_FAILED.search(stderr)
    return stderr if match is None else json.loads(match[1])


def _outcome(text: str | None, flags: Mapping[str, str]) -> dict[str, Any]:
    try:
        gates = parse_feature_gates([flags["feature-gates"]] if "feature-gates" in flags else [])
        if "config" in flags:
            configuration = load_configuration_file(
                flags["config"], gates=gates, leader_election_flags=flags
            )
        else:
            configuration = effective_configuration(text, flags, gates=gates)
        check_profiles(configuration, gates=gates)
        return {"exit": 0, "written": written(_with_kubeconfig(configuration))}
    except ConfigError as exc:
        return {"exit": 1, "error": str(exc)}


def _with_kubeconfig(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """As recorded: the path was set where the file did not set one."""
    connection = configuration.client_connection
    if connection.kubeconfig:
        return configuration
    return replace(configuration, client_connection=replace(connection, kubeconfig=_KUBECONFIG))
