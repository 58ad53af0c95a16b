"""Action of `kubesched config`: check a configuration file, or show the complete one."""

from __future__ import annotations

import json

import click
import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.bounded_file import MOST_SETTINGS_BYTES, read_bounded
from kubesched.foundation.util.printable_text import printable
from kubesched.foundation.util.standard_input import read_standard_input
from kubesched.foundation.util.yaml_documents import YamlDocument, read_documents
from kubesched.scheduler.all_plugins import extension_points_of_all
from kubesched.scheduler.config import (
    FeatureGates,
    KubeSchedulerConfiguration,
    as_written,
    complete_configuration,
    default_configuration,
    load_configuration,
    parse_feature_gates,
    versioned,
)
from kubesched.scheduler.config.file_problems import ConfigProblem, find_problems
from kubesched.scheduler.config.types import API_VERSION
from kubesched.scheduler.config.yaml_output import dump_yaml
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry

__all__ = ["run_default", "run_show", "run_validate"]

_INVALID = 2
_KIND = "KubeSchedulerConfiguration"
# Parts that only scenarios have.
_SCENARIO_PARTS = frozenset({"cluster", "workloads", "configurations", "seeds"})


def run_validate(file: str, gates: tuple[str, ...], plugins: tuple[str, ...], output: str) -> None:
    if output == "text":
        _load(file, parse_feature_gates(gates), plugins)
        click.echo(f"{printable(file)}: ok")
        return
    try:
        found = _problems(_read(file), parse_feature_gates(gates), out_of_tree_plugins(plugins))
    except ConfigError as exc:
        found = (ConfigProblem(0, str(exc)),)
    click.echo(msgspec.json.encode({"file": file, "problems": found}).decode())
    if found:
        raise click.exceptions.Exit(_INVALID)


def run_show(file: str, gates: tuple[str, ...], plugins: tuple[str, ...], output: str) -> None:
    click.echo(_text(_load(file, parse_feature_gates(gates), plugins), output), nl=False)


def run_default(gates: tuple[str, ...], output: str) -> None:
    configuration = default_configuration(parse_feature_gates(gates))
    click.echo(_text(configuration, output), nl=False)


def _load(file: str, gates: FeatureGates, plugins: tuple[str, ...]) -> KubeSchedulerConfiguration:
    """Load a file and complete its configuration; problems end the command."""
    registry = out_of_tree_plugins(plugins)
    try:
        text = _read(file)
    except ConfigError as exc:
        click.echo(f"{printable(file)}: {exc}", err=True)
        raise click.exceptions.Exit(_INVALID) from exc
    problems = _problems(text, gates, registry)
    for problem in problems:
        click.echo(problem.at(printable(file)), err=True)
        for note in problem.notes:
            click.echo(f"  {note}", err=True)
    if problems:
        raise click.exceptions.Exit(_INVALID)
    configuration = load_configuration(text, gates=gates, known_args=registry.known_args())
    return complete_configuration(configuration, extension_points_of_all(registry), gates=gates)


def _problems(
    text: bytes, gates: FeatureGates, plugins: PluginRegistry
) -> tuple[ConfigProblem, ...]:
    if (other := _other_file(text)) is not None:
        return (other,)
    known_args, implemented = plugins.known_args(), extension_points_of_all(plugins)
    return find_problems(text, gates=gates, known_args=known_args, implemented=implemented)


def _other_file(text: bytes) -> ConfigProblem | None:
    """Return the problem of a file that is no configuration at all, with the command for it."""
    try:
        first = next(iter(read_documents(text.decode("utf-8-sig"))), None)
    except UnicodeDecodeError:
        return None
    value = first.value if isinstance(first, YamlDocument) else None
    if not isinstance(value, dict) or not value:
        return None
    kind = value.get("kind")
    if kind is None and value.get("apiVersion") is None:
        if value.keys() & _SCENARIO_PARTS:
            kind = "Scenario"
        else:
            missing = f"no kind: begin it with `apiVersion: {API_VERSION}` and `kind: {_KIND}`"
            return ConfigProblem(1, missing)
    if not isinstance(kind, str) or kind.endswith(("Configuration", "Args")):
        return None
    notes: tuple[str, ...] = ("`kubesched up -f` and `kubesched explain pods -f` read objects",)
    if kind == "Scenario":
        notes = ("`kubesched simulate` reads it, and reports what is wrong with it",)
    return ConfigProblem(1, f"a {kind}, not a {_KIND}", notes)


def _read(file: str) -> bytes:
    try:
        return read_standard_input() if file == "-" else read_bounded(file, MOST_SETTINGS_BYTES)
    except OSError as exc:
        raise ConfigError((exc.strerror or str(exc)).lower()) from exc


def _text(configuration: KubeSchedulerConfiguration, output: str) -> str:
    document = versioned(as_written(configuration))
    if output == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return dump_yaml(document)
