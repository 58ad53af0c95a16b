"""Strict decoding of plain values into configuration types (docs/reference/01 §2.3).

The decoder collects all unknown and repeated fields with their paths. Of values with a wrong type
the first one is the error, as in the reference; the others accompany it. The result are members
for `msgspec.convert`: without nulls, durations as nanoseconds, bytes decoded.
"""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import inspect

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import parse_duration, quote
from kubesched.scheduler.config.config_struct import SCALAR
from kubesched.scheduler.config.config_text import JsonNumber, json_kind, members, plain
from kubesched.scheduler.config.removed import field_note
from kubesched.scheduler.config.types import KIND

__all__ = ["TYPE_META", "Decoded", "WrongTypeError", "decode_members", "rejected_members"]

TYPE_META: Final = ("apiVersion", "kind")

_MAX_PROBLEMS: Final = 100
# Messages of msgspec: the error and its path; a missing member; the first part of a path.
_MSGSPEC_ERROR: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_FIRST_PART: Final = re.compile(r"[^.\[]*")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/\r\n]*")
_INTEGER_RANGES: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "float32": (-3.4028235e38, 3.4028235e38),
}
# The types in `api` have `int` where the API has 32 bits.
_INT32_MEMBERS: Final = frozenset(
    {
        ("PreferredSchedulingTerm", "weight"),
        ("TopologySpreadConstraint", "maxSkew"),
        ("TopologySpreadConstraint", "minDomains"),
    }
)
# Members of a profile that users often put beside the profiles by mistake.
_OF_A_PROFILE: Final = frozenset({"plugins", "pluginConfig", "percentageOfNodesToScore"})
_API_NAMES: Final = {
    "PluginRef": "v1.Plugin",
    "ExtenderConfig": "v1.Extender",
    "LeaderElectionConfiguration": "v1alpha1.LeaderElectionConfiguration",
    "ClientConnectionConfiguration": "v1alpha1.ClientConnectionConfiguration",
}


class Decoded(msgspec.Struct, frozen=True):
    """The members that fit the type, and the strictness problems."""

    members: dict[str, Any]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()  # the remedies


class WrongTypeError(ConfigError):
    """Values with a wrong type. The text is about the first; `problems` has all, with paths.

    `decoded` has the other members.
    """

    def __init__(self, problems: Sequence[tuple[str, str]], decoded: Decoded) -> None:
        self.problems, self.decoded = tuple(problems), decoded
        super().__init__(self.problems[0][1])


def decode_members(value: Any, struct: type, *, is_own: bool = False) -> Decoded:
    """Decode an object whose members are those of `struct`, plus a version and a kind.

    Errors about the type of an out-of-tree plugin (`is_own`) name fields; errors about the
    reference's types have its texts.

    Raises:
        WrongTypeError: a value has the wrong type, or is a text that cannot be parsed.
    """
    decoder = _Decoder(is_own)
    found = decoder.struct(struct, value, extra=TYPE_META)
    decoded = Decoded(found, tuple(dict.fromkeys(decoder.problems)), tuple(decoder.notes))
    # A text that cannot be parsed ends the reference's decoder, which then drops errors about wrong
    # types.
    if wrong := [*decoder.unreadable, *decoder.type_errors]:
        error = WrongTypeError(wrong, decoded)
        if decoder.unreadable:
            # The reference does not name the place; add it.
            error.add_note(f"in {decoder.unreadable[0][0]}")
        raise error
    return decoded


class _Decoder:
    """Decodes one object and tracks the path for error messages."""

    def __init__(self, is_own: bool = False) -> None:
        self._is_own = is_own
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.type_errors: list[tuple[str, str]] = []  # pairs of a path and the error there
        self.unreadable: list[tuple[str, str]] = []  # the same, for durations and base64
        self._path: list[str] = []  # as users write it: `profiles[0]`, `plugins`
        self._fields: list[str] = []  # without indices, as type errors have it
        self._struct = ""

    def struct(self, struct: type, value: Any, *, extra: tuple[str, ...] = ()) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._mismatch(value, _api_name(struct))
            return {}
        types = _member_types(struct)
        seen: set[str] = set()
        decoded: dict[str, Any] = {}
        outer, self._struct = self._struct, _api_name(struct).split(".")[-1]
        for name, item in members(value):
            self._path.append(f".{name}" if self._path else name)
            self._fields.append(name)
            if name not in types and name not in extra:
                self._problem("unknown")
                self._advise(name, types)
            else:
                if name in seen:
                    self._problem("duplicate")
                seen.add(name)
                if name not in types:
                    self._text(item)
                elif item is not None and (given := self._value(types[name], item)) is not None:
                    decoded[name] = given
            self._path.pop()
            self._fields.pop()
        self._struct = outer
        return decoded

    def _value(self, kind: inspect.Type, value: Any) -> Any:
        scalar = ""
        if isinstance(kind, inspect.Metadata):
            scalar = (kind.extra or {}).get(SCALAR, "")
            kind = kind.type
        match kind:
            case inspect.UnionType(types=types):
                return self._union(types, value)
            case inspect.StructType(cls=struct):
                return self.struct(struct, value)
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                return self._list(item, value)
            case inspect.DictType(value_type=item):
                return self._dict(item, value)
        return self._scalar(kind, scalar, value)

    def _scalar(self, kind: inspect.Type, scalar: str, value: Any) -> Any:
        match kind:
            case inspect.IntType() if scalar == "duration":
                return self._parsed(_duration, value)
            case inspect.IntType():
                return self._number(value, scalar or "int64")
            case inspect.FloatType():
                return self._number(value, scalar or "float64")
            case inspect.StrType():
                return self._text(value)
            case inspect.BoolType():
                return value if isinstance(value, bool) else self._mismatch(value, "bool")
            case inspect.BytesType():
                if not isinstance(value, str):
                    return self._mismatch(value, "[]uint8")
                return self._parsed(_bytes, value)
            case inspect.AnyType() if scalar == "raw":
                return value
        # Any, and the richer types that a plugin's own arguments may have.
        return plain(value)

    def _union(self, types: tuple[inspect.Type, ...], value: Any) -> Any:
        some = [kind for kind in types if not isinstance(kind, inspect.NoneType)]
        return self._value(some[0], value) if len(some) == 1 else plain(value)

    def _list(self, kind: inspect.Type, value: Any) -> Any:
        if not isinstance(value, list):
            return self._mismatch(value, f"[]{_type_name(kind)}")
        decoded = []
        for index, item in enumerate(value):
            self._path.append(f"[{index}]")
            given = _zero(kind) if item is None else self._value(kind, item)
            if given is not None or item is None:
                decoded.append(given)
            self._path.pop()
        return decoded

    def _dict(self, kind: inspect.Type, value: Any) -> Any:
        if not isinstance(value, dict):
            return self._mismatch(value, f"map[string]{_type_name(kind)}")
        decoded: dict[str, Any] = {}
        for name, item in members(value):
            self._path.append(f".{name}" if self._path else name)
            if name in decoded:
                self._problem("duplicate")
            given = _zero(kind) if item is None else self._value(kind, item)
            if given is not None or item is None:
                decoded[name] = given
            self._path.pop()
        return decoded

    def _parsed(self, parse: Callable[[Any], Any], value: Any) -> Any:
        try:
            return parse(value)
        except ConfigError as exc:
            self.unreadable.append(("".join(self._path), str(exc)))
            return None

    def _text(self, value: Any) -> Any:
        return value if value is None or isinstance(value, str) else self._mismatch(value, "string")

    def _number(self, value: Any, name: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._mismatch(value, name)
        low, high = _INTEGER_RANGES.get(name, (-float("inf"), float("inf")))
        is_whole = isinstance(value, int) or name.startswith("float")
        if not is_whole or not low <= value <= high:
            text = value.text if isinstance(value, JsonNumber) else str(value)
            return self._mismatch(value, name, f"number {text}")
        return float(value) if name.startswith("float") else value

    def _problem(self, what: str) -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(f"{what} field {quote(''.join(self._path))}")

    def _advise(self, name: str, known: Collection[str]) -> None:
        by_lower_case = {other.lower(): other for other in known}
        if name in _OF_A_PROFILE and self._struct == KIND:
            self.notes.append(f"{name} belongs to a profile: profiles[].{name}")
        elif note := field_note(name):
            self.notes.append(note)
        elif near := difflib.get_close_matches(name.lower(), by_lower_case, n=1):
            self.notes.append(f"{name}: did you mean {by_lower_case[near[0]]!r}?")

    def _mismatch(self, value: Any, wanted: str, found: str = "") -> None:
        """Record a wrong type. Returns None, so that the value is omitted."""
        if self._is_own:
            where = "".join(self._path) or "the arguments"
            given = found or _KINDS[json_kind(value)]
            text = f"{where}: must be {_plain_name(wanted)}, not {given}"
            self.type_errors.append(("".join(self._path), text))
            return
        where = (
            f"Go struct field {self._struct}.{'.'.join(self._fields)}"
            if self._fields
            else "Go value"
        )
        text = f"json: cannot unmarshal {found or json_kind(value)} into {where} of type {wanted}"
        self.type_errors.append(("".join(self._path), text))


_KINDS: Final = {
    "bool": "true or false",
    "string": "a text",
    "number": "a number",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}


def _plain_name(go_name: str) -> str:
    """Return the name of a type for users."""
    if go_name.startswith("[]"):
        return "a list"
    if go_name.startswith(("int", "uint")):
        return "a whole number"
    if go_name.startswith("float"):
        return "a number"
    return {"string": "a text", "bool": "true or false"}.get(go_name, "a mapping")


@cache
def _member_types(struct: type) -> dict[str, inspect.Type]:
    described = inspect.type_info(struct)
    if not isinstance(described, inspect.StructType):
        raise TypeError(f"arguments of a plugin must be a msgspec.Struct, not {struct!r}")
    types = {field.encode_name: field.type for field in described.fields}
    for name in types:
        if (struct.__name__, name) in _INT32_MEMBERS:
            types[name] = inspect.Metadata(inspect.IntType(), extra={SCALAR: "int32"})
    if described.tag_field is not None:
        types[described.tag_field] = inspect.AnyType()
    return types


def _duration(value: Any) -> int:
    if not isinstance(value, str):
        raise ConfigError(f"json: cannot unmarshal {json_kind(value)} into Go value of type string")
    try:
        return parse_duration(value)
    except ValueError as exc:
        raise ConfigError(str(exc)) from exc


def _bytes(value: str) -> bytes:
    encoded = value.encode(errors="surrogatepass")
    try:
        return base64.b64decode(encoded.translate(None, b"\r\n"), validate=True)
    except ValueError as exc:
        legal = _BASE64.match(encoded)
        position = legal.end() if legal is not None else 0
        raise ConfigError(f"illegal base64 data at input byte {position}") from exc


_ZEROS: Final[tuple[tuple[type, Callable[[], Any]], ...]] = (
    (inspect.StructType, dict),
    (inspect.DictType, dict),
    (inspect.StrType, str),
    (inspect.IntType, int),
    (inspect.FloatType, float),
    (inspect.BoolType, bool),
    (inspect.ListType, list),
    (inspect.VarTupleType, list),
)


def _zero(kind: inspect.Type) -> Any:
    """Return the value of a null inside a list or a map."""
    kind = kind.type if isinstance(kind, inspect.Metadata) else kind
    return next((make() for described, make in _ZEROS if isinstance(kind, described)), None)


def _type_name(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(extra=extra):
            return str((extra or {}).get(SCALAR) or _type_name(kind.type))
        case inspect.StructType(cls=struct):
            return _api_name(struct)
        case inspect.StrType():
            return "string"
        case inspect.BoolType():
            return "bool"
        case inspect.IntType():
            return "int64"
    return "interface {}"


def _api_name(struct: type) -> str:
    return _API_NAMES.get(struct.__name__, f"v1.{struct.__name__}")


def rejected_members(
    build: Callable[[Mapping[str, Any]], object],
    given: Mapping[str, Any],
    reported: Iterable[str] = (),
) -> list[tuple[str, str]]:
    """Return the paths and errors of all members that `build` rejects.

    An out-of-tree plugin's `args_type` may have required members, ranges, patterns and a
    `__post_init__`. msgspec reports only the first error, so a rejected member is removed and
    `build` is called again with the rest. Members at the paths in `reported` already have an error
    and are not in `given`.
    """
    rejected: list[tuple[str, str]] = []
    left = dict(given)
    removed = {_first_part(path) for path in reported}
    while True:
        try:
            build(left)
            return rejected
        except msgspec.ValidationError as exc:
            path, text = _path_and_text(str(exc))
        member = _first_part(path)
        if member in removed:
            return rejected
        rejected.append((path, text))
        if member not in left:
            return rejected
        del left[member]
        removed.add(member)


def _first_part(path: str) -> str:
    first = _FIRST_PART.match(path)
    return "" if first is None else first[0]


def _path_and_text(error: str) -> tuple[str, str]:
    """Split an error of msgspec into its path and a text that begins with the path."""
    found = _MSGSPEC_ERROR.fullmatch(error)
    what, path = (error, "") if found is None else (found["what"], found["path"] or "")
    if missing := _MISSING.fullmatch(what):
        path = ".".join(part for part in (path, missing["field"]) if part)
        return path, f"{path}: must be given"
    return path, f"{path}: {what[:1].lower()}{what[1:]}" if path else what
