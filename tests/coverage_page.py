"""Writes docs/reference/coverage.md from the tables in the code.

`python -m tests.coverage_page` writes the page; `tests/test_coverage_page.py` checks that it is up
to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import SECOND
from kubesched.scheduler.config import args, types
from kubesched.scheduler.config.config_struct import ConfigStruct
from kubesched.scheduler.config.feature_gate_effects import GATE_EFFECTS, GATES_WITHOUT_EFFECT
from kubesched.scheduler.config.feature_gates import (
    DEFAULT_FEATURE_GATES,
    FEATURES,
    Feature,
    parse_feature_gates,
)
from kubesched.scheduler.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.server.options.flags import GROUPS

__all__ = ["PAGE", "refusal", "text_of_page"]

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "reference" / "coverage.md"

_HEAD: Final = """\
# What of v1.36 is in force

Written by `python -m tests.coverage_page` from the tables in the code; do not edit. It lists every
feature gate with both values, every plugin, flag and configuration field.
[differences.md](../differences.md) has the reasons.
"""
_OTHERS: Final = "accepted; read by other components only"
_FLAGS_WITHOUT_EFFECT: Final = {
    "contention-profiling": "accepted; there are no contention profiles",
    "disable-http2-serving": "accepted; the server speaks HTTP/1.1",
    "http2-max-streams-per-connection": "accepted; the server speaks HTTP/1.1",
    "kube-api-content-type": "accepted; requests are JSON",
}
_FIELDS_WITHOUT_EFFECT: Final = {
    "parallelism": "workers of API calls only; nodes are evaluated as columns",
    "enableContentionProfiling": "accepted; there are no contention profiles",
    "clientConnection.acceptContentTypes": "accepted; requests are JSON",
    "clientConnection.contentType": "accepted; requests are JSON",
}
_OWN_FLAG: Final = "An addition of kubesched"  # in the help text of a flag of our own
_OWN_FIELDS: Final = frozenset(("profiles[].tieBreak",))


def refusal(gate: str, value: bool) -> str:
    """Return the error of a scheduler with this one setting; empty if it starts."""
    try:
        parse_feature_gates([f"{gate}={str(value).lower()}"])
    except ConfigError as exc:
        return str(exc)
    return ""


def text_of_page() -> str:
    parts = [_HEAD, *_gates(), *_plugins(), *_flags(), *_fields()]
    return "\n".join(parts) + "\n"


def _gates() -> Iterator[str]:
    yield "## Feature gates\n"
    yield "| gate | stage | default | true | false |\n|---|---|---|---|---|"
    for feature, default in DEFAULT_FEATURE_GATES.items():
        stage = feature.stage.value or "GA"
        word = "on" if default else "off"
        locked = ", locked" if feature.locked else ""
        on, off = _in_force(feature, True), _in_force(feature, False)
        yield f"| {feature.name} | {stage} | {word}{locked} | {on} | {off} |"


def _in_force(feature: Feature, value: bool) -> str:
    error = refusal(feature.name, value)
    if feature.locked and error:
        return "refused, as by the reference"
    effect = _OTHERS
    if feature.name in GATE_EFFECTS:
        effect = GATE_EFFECTS[feature.name][0 if value else 1]
    elif feature.name in GATES_WITHOUT_EFFECT:
        effect = f"accepted; {GATES_WITHOUT_EFFECT[feature.name]}"
    if not error:
        return effect
    return f"{effect} ({_together(feature.name, value)})"


def _together(gate: str, value: bool) -> str:
    """Return with which other gates the setting is accepted, as in the reference."""
    if value:
        return f"needs {', '.join(FEATURES[gate].depends_on)}"
    needy = (each.name for each in FEATURES.values() if gate in each.depends_on)
    on = sorted(name for name in needy if DEFAULT_FEATURE_GATES.enabled(name))
    return f"only without {', '.join(on)}"


def _plugins() -> Iterator[str]:
    yield "\n## Plugins\n"
    yield "| plugin | extension points | in force |\n|---|---|---|"
    for name, points in sorted(IN_TREE_EXTENSION_POINTS.items()):
        assert name in IN_TREE_PLUGINS
        listed = ", ".join(sorted(map(str, points)))
        yield f"| {name} | {listed} | yes |"


def _flags() -> Iterator[str]:
    yield "\n## Flags\n"
    yield "| flag | default | in force |\n|---|---|---|"
    for group in GROUPS:
        for flag in group.flags:
            in_force = _FLAGS_WITHOUT_EFFECT.get(flag.name, "yes")
            if _OWN_FLAG in flag.help:
                in_force = "yes; kubesched's own"
            default = flag.kind.show(flag.default)
            shown = f"`{default}`" if default not in ("", "[]") else ""
            yield f"| `--{flag.name}` | {shown} | {in_force} |"


def _fields() -> Iterator[str]:
    yield "\n## Configuration fields\n"
    yield "| field | default | in force |\n|---|---|---|"
    rows = [*_fields_of(types.KubeSchedulerConfiguration, "")]
    for name in sorted(args.__dict__):
        value = getattr(args, name)
        is_type = isinstance(value, type) and value is not args.PluginArgs
        if is_type and issubclass(value, args.PluginArgs):
            rows += _fields_of(value, f"{name}: ")
    for path, default in rows:
        in_force = _FIELDS_WITHOUT_EFFECT.get(path, "yes")
        if path in _OWN_FIELDS:
            in_force = "yes; kubesched's own"
        yield f"| `{path}` | {_shown(default)} | {in_force} |"


def _fields_of(kind: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(kind, include_extras=False)
    for field in msgspec.structs.fields(kind):
        path = prefix + field.encode_name
        inner = next((each for each in _structs_in(hints[field.name])), None)
        if inner is None or inner is types.PluginSet:
            yield path, None if field.default is msgspec.NODEFAULT else field.default
            continue
        is_list = "tuple" in str(hints[field.name])
        yield from _fields_of(inner, f"{path}[]." if is_list else f"{path}.")


def _structs_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, (ConfigStruct, types.PluginConfig)):
        yield hint
        return
    for each in get_args(hint):
        yield from _structs_in(each)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value >= SECOND:
        return f"`{value // SECOND}s`"
    if isinstance(value, str | int | float) and str(value):
        return f"`{value}`"
    return ""


if __name__ == "__main__":
    PAGE.write_text(text_of_page())
