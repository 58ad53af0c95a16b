"""The options that disable metrics and restrict label values.

docs/reference/02 §11.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from kubesched.errors import ConfigError
from kubesched.foundation.metrics.instruments import FamilyGroup
from kubesched.foundation.util.yaml_reader import load_yaml
from kubesched.scheduler.server.options.command_line import MetricsOptions

__all__ = ["limit_metrics"]


def limit_metrics(options: MetricsOptions, groups: Iterable[FamilyGroup]) -> int:
    """Apply the options before anything is counted. Returns the number of disabled metrics.

    Names that are in no group are ignored, as in the reference.

    Raises:
        ConfigError: the file of allowed label values cannot be read.
    """
    allowed = dict(options.allowed_label_values)
    if options.allowed_label_values_file:
        allowed |= _read(options.allowed_label_values_file)
    disabled = 0
    for group in groups:
        disabled += sum(group.disable(name) for name in options.disabled)
        for key, values in allowed.items():
            metric, _, label = key.partition(",")
            family = group.families.get(metric)
            if family is not None and label in family.label_names:
                family.allow_only(label, values.split(","))
    return disabled


def _read(path: str) -> Mapping[str, str]:
    try:
        text = Path(path).read_text()
        content = load_yaml(text)
    except (OSError, UnicodeDecodeError, ValueError, yaml.YAMLError) as exc:
        raise ConfigError(f"allow-metric-labels-manifest {path!r} cannot be read: {exc}") from exc
    if not isinstance(content, dict):
        raise ConfigError(f"allow-metric-labels-manifest {path!r}: not a mapping")
    return {str(key): str(values) for key, values in content.items()}
