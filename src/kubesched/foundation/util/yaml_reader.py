"""YAML with the meanings that Kubernetes gives it: those of the same text as JSON.

Kubernetes reads every file with one library, sigs.k8s.io/yaml. PyYAML parses the syntax here, and
this module converts scalars and keys, because PyYAML's rules differ: `y` and `on` are true, `010`
is eight, `1e3` is a number, `1:30` and dates are text, and a float without a fraction is an
integer. Every key is text: `n` is the key `false`, as in the reference. docs/reference/01 §2.1.
"""

from __future__ import annotations

import base64
import math
import re
from typing import Any, Final

import yaml

from kubesched.errors import ConfigError
from kubesched.foundation.util.yaml_limits import check_yaml

__all__ = [
    "MERGE_KEY",
    "YamlLoader",
    "check_finite",
    "key_text",
    "load_yaml",
    "parse_integer",
    "resolve_plain",
    "resolve_tagged",
]

MERGE_KEY: Final = "<<"
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NUMERIC_START: Final = frozenset("+-.0123456789")
# Far beyond 64 bits; `int` refuses a few thousand digits.
_LONGEST_INTEGER: Final = 1000
_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = "tag:kubesched,plain"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
}


def resolve_plain(text: str) -> Any:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC_START:
        return text
    integer = parse_integer(text)
    if integer is not None and -(2**63) <= integer < 2**64:
        return integer
    digits = text.replace("_", "")
    if _FLOAT.fullmatch(digits if text[0] != "." else text):
        return _number(float(digits))
    return text


def resolve_tagged(text: str, tag: str) -> Any:
    """Return the value of a scalar with a tag. Raises ConfigError if they do not fit."""
    kind = tag.removeprefix(_TAG)
    if kind == "binary":
        try:
            return base64.b64decode(text).decode(errors="replace")
        except ValueError as exc:
            raise ConfigError("yaml: !!binary value contains invalid base64 data") from exc
    if kind not in _TYPES:
        return text
    value = resolve_plain(text)
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise ConfigError(f"yaml: cannot decode !!str `{text}` as a !!{kind}")
    return value


def key_text(key: Any) -> str:
    """Return the JSON key for a key of a mapping. Raises ConfigError for null and collections."""
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int() | float():
            return str(key)
    raise ConfigError(f"unsupported map key: {key!r}")


def parse_integer(text: str) -> int | None:
    """Read an integer in any base that its prefix names; a leading zero means octal."""
    digits = text.replace("_", "")
    if len(digits) > _LONGEST_INTEGER or not _INTEGER.fullmatch(digits):
        return None
    sign = -1 if digits[0] == "-" else 1
    magnitude = digits.lstrip("+-")
    is_octal = len(magnitude) > 1 and magnitude[0] == "0" and magnitude[1].isdigit()
    return sign * int(magnitude, 8 if is_octal else 0)


def load_yaml(text: str | bytes, *, most_values: int | None = None) -> Any:
    """Read a text with one document. A later value of a repeated key replaces the earlier one.

    Raises:
        yaml.YAMLError: it is not YAML, or exceeds the limits of `yaml_limits`.
        TooManyValuesError: it has more than `most_values` values.
        ValueError: the text contains characters that YAML does not allow.
    """
    check_yaml(text, most_values=most_values)
    return yaml.load(text, Loader=YamlLoader)


class YamlLoader(yaml.CSafeLoader):
    """PyYAML's loader with the scalars and keys of this module."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Replace merge keys by the members of the mappings that they refer to."""
        for key, _ in node.value:
            if key.tag == _PLAIN and key.value == MERGE_KEY:
                key.tag = f"{_TAG}merge"
        super().flatten_mapping(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        return {
            self.member_name(key): self.construct_object(value, deep=deep)
            for key, value in node.value
        }

    def member_name(self, key: yaml.Node) -> str:
        """Return the JSON key for the node of a key. Raises ConstructorError."""
        value = self.construct_object(key) if isinstance(key, yaml.ScalarNode) else None
        try:
            return key_text(value)
        except ConfigError:
            raise yaml.constructor.ConstructorError(
                None, None, "a key that is not text", key.start_mark
            ) from None

    def is_merge_key(self, key: yaml.Node) -> bool:
        return key.value == MERGE_KEY and key.tag in (_PLAIN, f"{_TAG}merge")

    def construct_scalar_value(self, node: yaml.ScalarNode) -> Any:
        try:
            if node.tag == _PLAIN:
                return check_finite(resolve_plain(node.value))
            return check_finite(resolve_tagged(node.value, node.tag))
        except ConfigError as exc:
            problem = str(exc).removeprefix("yaml: ")
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


# Marks every plain scalar. Quoted ones have the tag `str`.
YamlLoader.yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}
for _kind in ("null", "bool", "int", "float", "binary", "timestamp"):
    YamlLoader.add_constructor(f"{_TAG}{_kind}", YamlLoader.construct_scalar_value)
YamlLoader.add_constructor(_PLAIN, YamlLoader.construct_scalar_value)


def check_finite(value: Any) -> Any:
    """Return a value that JSON can express. Raises ConfigError for NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        shown = "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
        raise ConfigError(f"json: unsupported value: {shown}")
    return value


def _number(value: float) -> int | float:
    """Return a float without a fraction as an integer, as JSON writes it."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else value
