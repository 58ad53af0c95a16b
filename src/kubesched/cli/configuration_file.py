"""Reads the scheduler configuration file of commands other than `kubesched run`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from kubesched.errors import ConfigError
from kubesched.foundation.util.bounded_file import MOST_SETTINGS_BYTES, read_bounded
from kubesched.scheduler.all_plugins import extension_points_of_all
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.file_problems import find_problems
from kubesched.scheduler.config.load import load_configuration
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.options import scheduler_configuration
from kubesched.scheduler.runtime.plugin_loading import load_plugin
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry

__all__ = ["file_hash", "plugin_configuration", "read_configuration"]


def file_hash(file: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(read_bounded(file, MOST_SETTINGS_BYTES)).hexdigest()


def read_configuration(
    file: Path, plugins: PluginRegistry, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> KubeSchedulerConfiguration:
    """Read the configuration of a scheduler that also has these plugins.

    Raises:
        ConfigError: the file is invalid; one line for each problem.
        OSError: the file cannot be read.
    """
    text, known_args = read_bounded(file, MOST_SETTINGS_BYTES), plugins.known_args()
    problems = find_problems(
        text,
        gates=gates,
        known_args=known_args,
        implemented=extension_points_of_all(plugins),
    )
    if problems:
        error = ConfigError("\n".join(problem.at(str(file)) for problem in problems))
        for note in (note for problem in problems for note in problem.notes):
            error.add_note(note)
        raise error
    return load_configuration(text, gates=gates, known_args=known_args)


def plugin_configuration(
    config_file: Path | None,
    registry: PluginRegistry,
    plugins: Sequence[str],
    gates: FeatureGates,
) -> KubeSchedulerConfiguration:
    """Return the file's configuration; without a file the default one, with the named plugins.

    Raises:
        ConfigError: the file, a plugin or its name is invalid.
        OSError: the file cannot be read.
    """
    if config_file is not None:
        return read_configuration(config_file, registry, gates)
    if not plugins:
        return default_configuration(gates)
    enabled = [{"name": load_plugin(plugin).name} for plugin in plugins]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    return scheduler_configuration(
        profiles=[profile], out_of_tree_registry=registry, feature_gates=gates
    )
