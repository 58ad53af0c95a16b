"""Reads a configuration from the page, as strictly as a `--config` file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.dashboard.bad_request import BadRequestError
from kubesched.scheduler.all_plugins import extension_points_of_all
from kubesched.scheduler.config.file_problems import find_problems
from kubesched.scheduler.config.load import load_configuration
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry

__all__ = ["read_configuration"]


def read_configuration(
    text: str, plugins: Mapping[str, Any] | None = None
) -> KubeSchedulerConfiguration:
    """Read a configuration from a YAML text.

    Raises:
        BadRequestError: the message is one line with the first problem and its location.
    """
    registry = PluginRegistry(plugins or {})
    known_args = registry.known_args()
    problems = find_problems(
        text,
        known_args=known_args,
        implemented=extension_points_of_all(registry),
    )
    if problems:
        first, more = problems[0], len(problems) - 1
        place = f"line {first.line}: " if first.line else ""
        note = f"; {first.notes[0]}" if first.notes else ""
        others = f" (and {more} more)" if more else ""
        raise BadRequestError(f"{place}{first.text}{note}{others}")
    return load_configuration(text, known_args=known_args)
