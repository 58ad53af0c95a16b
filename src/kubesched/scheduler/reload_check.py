"""Which fields of a configuration a running scheduler can replace (docs/decisions/0045)."""

from __future__ import annotations

from typing import Final

import msgspec

from kubesched.errors import ConfigError
from kubesched.scheduler.config.types import KubeSchedulerConfiguration

__all__ = ["RELOADABLE_FIELDS", "check_reloadable", "fields_needing_restart"]

# Names as in the file. All other fields need a restart.
RELOADABLE_FIELDS: Final = (
    "profiles",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
)


def fields_needing_restart(
    old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration
) -> tuple[str, ...]:
    """Return the fields that differ and cannot be replaced, as they are named in the file."""
    return tuple(
        field.encode_name
        for field in msgspec.structs.fields(KubeSchedulerConfiguration)
        if field.encode_name not in RELOADABLE_FIELDS
        and getattr(old, field.name) != getattr(new, field.name)
    )


def check_reloadable(old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration) -> None:
    """Check that a running scheduler can change from one configuration to another.

    Raises:
        ConfigError: it must be restarted; the text names the fields.
    """
    fields = fields_needing_restart(old, new)
    if fields:
        verb = "needs" if len(fields) == 1 else "need"
        error = ConfigError(f"a change of {', '.join(fields)} {verb} a restart")
        error.add_note(f"these fields can be reloaded: {', '.join(RELOADABLE_FIELDS)}")
        raise error
