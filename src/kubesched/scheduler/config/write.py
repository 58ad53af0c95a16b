"""Writes a configuration as a file, as `--write-config-to` does (docs/reference/01 §14)."""

from __future__ import annotations

import base64
import struct
from typing import Any, Final

import msgspec

from kubesched.api import ApiStruct
from kubesched.foundation.util.go_format import format_duration
from kubesched.scheduler.config.config_struct import scalar_members
from kubesched.scheduler.config.configuration_completion import as_written
from kubesched.scheduler.config.types import (
    API_VERSION,
    KIND,
    ExtenderConfig,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
)
from kubesched.scheduler.config.yaml_output import dump_yaml

__all__ = ["versioned", "written"]

# Members that are omitted when they are false, zero or empty. Empty lists and nulls always are.
_OMITTED_WHEN_EMPTY: Final[dict[type, frozenset[str]]] = {
    KubeSchedulerConfiguration: frozenset({"delayCacheUntilActive"}),
    KubeSchedulerProfile: frozenset({"tieBreak"}),
    ExtenderConfig: frozenset(
        {
            "filterVerb",
            "preemptVerb",
            "prioritizeVerb",
            "weight",
            "bindVerb",
            "enableHTTPS",
            "nodeCacheCapable",
            "ignorable",
        }
    ),
    ExtenderTLSConfig: frozenset(
        field.encode_name for field in msgspec.structs.fields(ExtenderTLSConfig)
    ),
    ExtenderManagedResource: frozenset({"ignoredByScheduler"}),
}
# Members of core types that are written even when they hold nothing.
_WRITTEN_WHEN_EMPTY: Final[dict[str, frozenset[str]]] = {
    "LabelSelectorRequirement": frozenset({"key", "operator"}),
    "NodeSelector": frozenset({"nodeSelectorTerms"}),
    "NodeSelectorRequirement": frozenset({"key", "operator"}),
    "PreferredSchedulingTerm": frozenset({"weight", "preference"}),
    "TopologySpreadConstraint": frozenset({"maxSkew", "topologyKey", "whenUnsatisfiable"}),
}


def written(configuration: KubeSchedulerConfiguration) -> str:
    """Return the YAML of a complete configuration."""
    return dump_yaml(versioned(as_written(configuration)))


def versioned(configuration: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Return the configuration in built-in types, with the names and versions of the file."""
    return {"kind": KIND, "apiVersion": API_VERSION, **_members(configuration)}


def _members(value: msgspec.Struct) -> dict[str, Any]:
    struct_type = type(value)
    scalars = scalar_members(struct_type)
    omitted = _OMITTED_WHEN_EMPTY.get(struct_type, frozenset())
    kept = _WRITTEN_WHEN_EMPTY.get(struct_type.__name__, frozenset())
    members: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct_type):
        name, item = field.encode_name, getattr(value, field.name)
        if isinstance(value, ApiStruct):
            is_left_out = item == field.default and name not in kept
        else:
            is_left_out = item is None or item == () or (name in omitted and not item)
        if is_left_out:
            continue
        match scalars.get(name):
            case "duration":
                members[name] = format_duration(item)
            case "float32":
                members[name] = _shortest_float32(item)
            case _:
                members[name] = _plain(item)
    return members


def _plain(value: Any) -> Any:
    match value:
        case PluginConfig():
            return {"name": value.name, "args": _args(value)}
        case msgspec.Struct():
            return _members(value)
        case tuple() | list():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case bytes():
            return base64.b64encode(value).decode()
    return value


def _args(entry: PluginConfig) -> Any:
    if not isinstance(entry.args, msgspec.Struct):
        return entry.args
    return {"kind": f"{entry.name}Args", "apiVersion": API_VERSION, **_members(entry.args)}


def _shortest_float32(value: float) -> int | float:
    """The shortest number that is the same in 32 bits, without a needless fraction."""
    packed = struct.pack("f", value)
    for digits in range(1, 18):
        number = float(f"{value:.{digits}g}")
        if struct.pack("f", number) == packed:
            value = number
            break
    return int(value) if value.is_integer() and abs(value) < 1e21 else value
