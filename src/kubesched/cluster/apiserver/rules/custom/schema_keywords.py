"""The keywords of schemas and the types of their values.

The server refuses malformed schemas, so all other modules can rely on the types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem, invalid
from kubesched.cluster.apiserver.rules.schema.definitions import Json

__all__ = ["malformed_parts"]

_MAX_DEPTH: Final = 100


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_rules(value: Any) -> bool:
    texts = ("rule", "message", "messageExpression", "reason", "fieldPath")
    return isinstance(value, list) and all(
        isinstance(each, dict) and all(isinstance(each.get(text, ""), str) for text in texts)
        for each in value
    )


_KEYWORDS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    **dict.fromkeys(
        ("type", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-map-type"),
        (_is_text, "must be a string"),
    ),
    **dict.fromkeys(
        (
            "nullable",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "uniqueItems",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ),
        (_is_truth, "must be a boolean"),
    ),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), (_is_number, "must be a number")),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        (_is_count, "must be a count"),
    ),
    **dict.fromkeys(
        ("required", "x-kubernetes-list-map-keys"), (_is_names, "must be a list of strings")
    ),
    "enum": (_is_list, "must be a list"),
    "x-kubernetes-validations": (_is_rules, "must be a list of rules"),
}


def malformed_parts(schema: Any, path: str, depth: int = 0) -> Iterator[FieldProblem]:
    """Iterate over the problems of keywords with values of a wrong type."""
    if not isinstance(schema, dict):
        yield invalid(path, schema, "must be an object")
        return
    if depth > _MAX_DEPTH:
        yield invalid(path, "", "is nested too deeply")
        return
    for keyword, (fits, text) in _KEYWORDS.items():
        value = schema.get(keyword)
        if value is not None and not fits(value):
            yield invalid(f"{path}.{keyword}", value, text)
    for where, part in _parts(schema, path):
        yield from malformed_parts(part, where, depth + 1)


def _parts(schema: Json, path: str) -> Iterator[tuple[str, Any]]:
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for key, part in properties.items():
            yield f"{path}.properties[{key}]", part
    elif properties is not None:
        yield f"{path}.properties", properties
    for keyword in ("items", "not"):
        if schema.get(keyword) is not None:
            yield f"{path}.{keyword}", schema[keyword]
    additional = schema.get("additionalProperties")
    if additional is not None and not isinstance(additional, bool):
        yield f"{path}.additionalProperties", additional
    for keyword in ("allOf", "anyOf", "oneOf"):
        choices = schema.get(keyword)
        if isinstance(choices, list):
            for index, part in enumerate(choices):
                yield f"{path}.{keyword}[{index}]", part
        elif choices is not None:
            yield f"{path}.{keyword}", choices
