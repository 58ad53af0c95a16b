"""Generates the page's wire types, `ui/src/wire.ts`, from the types in Python.

python -m tests.dashboard.wire_typescript
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints

import msgspec

from kubesched.dashboard import wire_types
from kubesched.dashboard.plugin_panels import PluginPanels
from kubesched.explain.explanation import Explanation
from kubesched.explain.group_explanation import PodGroupExplanation
from kubesched.explain.shadow.shadow_entries import ShadowReport
from kubesched.explain.whatif import WhatIf

WIRE = Path(__file__).resolve().parents[2] / "ui" / "src" / "wire.ts"
ROOTS = [getattr(wire_types, name) for name in wire_types.__all__] + [
    Explanation,
    PodGroupExplanation,
    WhatIf,
    ShadowReport,
    PluginPanels,
]

_PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
_HEAD = """\
/**
 * The JSON that the server sends, generated from kubesched.dashboard.wire_types and
 * kubesched.explain by `python -m tests.dashboard.wire_typescript`.
 */
"""


def typescript() -> str:
    interfaces: dict[str, str] = {}
    for root in ROOTS:
        _declare(root, interfaces)
    return _HEAD + "".join(f"\n{interfaces[name]}" for name in sorted(interfaces))


def _declare(kind: Any, interfaces: dict[str, str]) -> str:
    """Add the interface of a type and of the types in it. Return its name."""
    name: str = kind.__name__
    if name not in interfaces:
        interfaces[name] = ""
        lines = []
        for field, hint in _fields(kind).items():
            is_optional = get_origin(hint) is NotRequired
            written = _written(get_args(hint)[0] if is_optional else hint, interfaces)
            lines.append(f"  {field}{'?' if is_optional else ''}: {written};\n")
        interfaces[name] = f"export interface {name} {{\n{''.join(lines)}}}\n"
    return name


def _fields(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _written(hint: Any, interfaces: dict[str, str]) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin in (Union, types.UnionType):
        return " | ".join(_written(each, interfaces) for each in arguments)
    if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
        item = _written(arguments[0], interfaces)
        return f"({item})[]" if " " in item else f"{item}[]"
    if origin is tuple:
        return f"[{', '.join(_written(each, interfaces) for each in arguments)}]"
    if origin is dict:
        return f"Record<string, {_written(arguments[1], interfaces)}>"
    if typing.is_typeddict(hint) or (isinstance(hint, type) and issubclass(hint, msgspec.Struct)):
        return _declare(hint, interfaces)
    return "unknown"


if __name__ == "__main__":
    WIRE.write_text(typescript())
