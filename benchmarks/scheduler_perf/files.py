"""Reads the workload files: the workloads, and their steps with all parameters filled in.

A file lists families. A family has the steps (`workloadTemplate`) and workloads, which define the
numbers that steps refer to as `countParam: $initNodes`. Paths are relative to the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

__all__ = ["Workload", "WorkloadFileError", "find_files", "read_workloads", "wanted"]

FILE_NAME = "performance-config.yaml"
# Params that describe one node or a time, not an amount.
_UNSCALED = re.compile(r"^max|PerNode$|^duration$|PerSecond$")


class WorkloadFileError(Exception):
    """A workload file has a field or a value that is not supported."""


class Workload(NamedTuple):
    """One workload, ready to run."""

    directory: Path
    family: str
    name: str
    labels: frozenset[str]
    threshold: float | None
    gates: Mapping[str, bool]
    steps: tuple[Mapping[str, Any], ...]
    scheduler_config: Path | None = None
    default_pod_template: Path | None = None

    @property
    def full_name(self) -> str:
        return f"{self.family}/{self.name}"


def find_files(root: Path, family: str = "") -> list[Path]:
    """Return all workload files below a folder, or below one folder of it."""
    found = sorted((root / family).rglob(FILE_NAME))
    if not found:
        raise WorkloadFileError(f"{root / family}: no {FILE_NAME} in or below it")
    return found


def read_workloads(file: Path, scale: float = 1.0) -> Iterator[Workload]:
    """The workloads of a file, in order; `scale` multiplies their numbers, at least 1 each."""
    families = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    for family in families:
        for workload in family["workloads"]:
            yield _workload(file.parent, family, workload, scale)


def wanted(workload: Workload, labels: str, name: str) -> bool:
    """Whether a workload has all these labels (`-label`: has it not) and the name matches."""
    for label in filter(None, labels.split(",")):
        is_excluded = label.startswith("-")
        if (label.lstrip("-") in workload.labels) == is_excluded:
            return False
    return re.search(name, workload.full_name) is not None


def _workload(
    directory: Path, family: Mapping[str, Any], workload: Mapping[str, Any], scale: float
) -> Workload:
    params = {key: _scaled(key, value, scale) for key, value in workload["params"].items()}
    config, pod_template = family.get("schedulerConfigPath"), family.get("defaultPodTemplatePath")
    return Workload(
        directory=directory,
        family=family["name"],
        name=workload["name"],
        labels=frozenset(workload.get("labels", ())),
        threshold=_threshold(workload.get("threshold")),
        gates={**family.get("featureGates", {}), **workload.get("featureGates", {})},
        steps=tuple(_filled(step, params) for step in family["workloadTemplate"]),
        scheduler_config=directory / config if config else None,
        default_pod_template=directory / pod_template if pod_template else None,
    )


def _scaled(key: str, value: Any, scale: float) -> Any:
    if scale == 1 or not isinstance(value, int) or value == 0 or _UNSCALED.search(key):
        return value
    return max(1, math.ceil(value * scale))


def _threshold(given: Any) -> float | None:
    # One number, or one for each kind of run; only one kind exists.
    if isinstance(given, Mapping):
        given = next(iter(given.values()), None)
    return None if given is None else float(given)


def _filled(step: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the step with `xParam: $name` replaced by `x: value`."""
    filled: dict[str, Any] = {}
    for key, value in step.items():
        if isinstance(value, Mapping) and "opcode" in value:
            filled[key] = _filled(value, params)
        elif key.endswith("Param"):
            name = str(value).removeprefix("$")
            if name not in params:
                raise WorkloadFileError(f"{step['opcode']}.{key}: no param named {name!r}")
            filled[key.removesuffix("Param")] = params[name]
        else:
            filled[key] = value
    return filled
