"""Validation of a value against its schema: types, limits, patterns, formats, combinations.

The texts are those of the reference. `old` is the value that an update replaces. Values that are
equal to their old value are not validated, so that a stricter schema does not block other changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from kubesched.cluster.apiserver.rules.custom.string_formats import has_format
from kubesched.cluster.apiserver.rules.custom.structural_schema import INT_OR_STRING, part_of
from kubesched.cluster.apiserver.rules.errors.api_errors import too_much_to_check
from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubesched.cluster.apiserver.rules.schema.definitions import Json
from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.regex import compile_pattern

__all__ = ["ABSENT", "MOST_STEPS", "ValidationSteps", "match_old_items", "schema_problems"]

# Represents a missing old value.
ABSENT: Final = object()
_COMPARED_IN_A_STEP: Final = 50
_STEPS_TO_COMPILE: Final = 50


MOST_STEPS: Final = 1_000_000


class ValidationSteps:
    """Counts the steps of one validation, and limits them.

    With alternatives in a schema, the work can be the product of schema and object.
    """

    def __init__(self) -> None:
        self._steps = 0

    def add(self, steps: int = 1) -> None:
        """Add steps. Raises ApiError 413 if there are too many."""
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise too_much_to_check(MOST_STEPS)


def schema_problems(
    value: Any, schema: Json, path: str, work: ValidationSteps, old: Any = ABSENT
) -> Iterator[FieldProblem]:
    """Iterate over the problems of a value."""
    work.add()
    if old is not ABSENT and value == old:
        return
    if value is None and schema.get("nullable"):
        return
    wrong = list(_type_problems(value, schema, path))
    if wrong:
        yield from wrong
        return
    yield from _enum_problems(value, schema, path, work)
    if isinstance(value, bool):
        pass
    elif isinstance(value, int | float):
        yield from _number_problems(value, schema, path)
    elif isinstance(value, str):
        yield from _text_problems(value, schema, path, work)
    elif isinstance(value, list):
        yield from _list_problems(value, schema, path, work, old)
    elif isinstance(value, dict):
        yield from _object_problems(value, schema, path, work, old)
    yield from _combination_problems(value, schema, path, work)


def match_old_items(old: Any, schema: Json) -> Callable[[Any], Any]:
    """Return a function from an item of the new list to the item of the old list it replaces.

    Only lists of type `map` identify items, by their keys. Of several old items with the same
    keys the first counts.
    """
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return lambda _: ABSENT
    keys = schema.get("x-kubernetes-list-map-keys") or []
    known: dict[Any, Any] = {}
    for each in old:
        if isinstance(each, dict):
            known.setdefault(_hashable([each.get(key) for key in keys]), each)

    def replaced_by(element: Any) -> Any:
        if not isinstance(element, dict):
            return ABSENT
        return known.get(_hashable([element.get(key) for key in keys]), ABSENT)

    return replaced_by


def _hashable(value: Any) -> Any:
    """Convert a JSON value to a hashable one, such that equal JSON values stay equal."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, list):
        return (list, *map(_hashable, value))
    if isinstance(value, dict):
        return (dict, frozenset((key, _hashable(item)) for key, item in value.items()))
    return value


def json_type_of(value: Any) -> str:
    """Return the name of a value's type in JSON schemas."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float) and not value.is_integer():
        return "number"
    kinds = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _in_body(path: str, text: str) -> str:
    return f"{path} in body {text}" if path else f"in body {text}"


def _type_problems(value: Any, schema: Json, path: str) -> Iterator[FieldProblem]:
    found = json_type_of(value)
    if schema.get(INT_OR_STRING):
        fits, wanted = found in ("integer", "string"), "integer,string"
    else:
        wanted = schema.get("type") or found
        whole = wanted == "integer" and isinstance(value, float) and value.is_integer()
        fits = found == wanted or whole or (wanted == "number" and found == "integer")
    if not fits:
        yield _wrong_type(path, found, f'must be of type {wanted}: "{found}"')


def _wrong_type(path: str, shown: str, text: str) -> FieldProblem:
    body = f'Invalid value: "{shown}": {_in_body(path, text)}'
    return FieldProblem(path or "<nil>", "FieldValueTypeInvalid", body)


def _enum_problems(
    value: Any, schema: Json, path: str, work: ValidationSteps
) -> Iterator[FieldProblem]:
    choices = schema.get("enum")
    if not choices:
        return
    work.add(len(choices) // _COMPARED_IN_A_STEP)
    if value not in choices:
        work.add(len(choices))  # the text lists all of them
        yield not_supported(path, value, [_plain(choice) for choice in choices])


def _plain(choice: Any) -> str:
    return choice if isinstance(choice, str) else str(choice).lower()


def _number_problems(value: float, schema: Json, path: str) -> Iterator[FieldProblem]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None:
        if schema.get("exclusiveMinimum"):
            if value <= least:
                yield invalid(path, value, _in_body(path, f"should be greater than {least:g}"))
        elif value < least:
            text = f"should be greater than or equal to {least:g}"
            yield invalid(path, value, _in_body(path, text))
    if most is not None:
        if schema.get("exclusiveMaximum"):
            if value >= most:
                yield invalid(path, value, _in_body(path, f"should be less than {most:g}"))
        elif value > most:
            text = f"should be less than or equal to {most:g}"
            yield invalid(path, value, _in_body(path, text))
    factor = schema.get("multipleOf")
    if factor and not math.isclose(value / factor, round(value / factor), abs_tol=1e-9):
        yield invalid(path, value, _in_body(path, f"should be a multiple of {factor:g}"))
    bits = {"int32": 31, "int64": 63}.get(schema.get("format", ""))
    if bits and not -(2**bits) <= value < 2**bits:
        text = f'must be of type {schema["format"]}: "{value}"'
        yield invalid(path, value, _in_body(path, text))


def _text_problems(
    value: str, schema: Json, path: str, work: ValidationSteps
) -> Iterator[FieldProblem]:
    least, most = schema.get("minLength"), schema.get("maxLength")
    if most is not None and len(value) > most:
        yield too_long(path, most)
    if least is not None and len(value) < least:
        yield invalid(path, value, _in_body(path, f"should be at least {least} chars long"))
    pattern = schema.get("pattern")
    if pattern and not _matches(pattern, value, work):
        yield invalid(path, value, _in_body(path, f"should match '{pattern}'"))
    name = schema.get("format")
    if name and not has_format(value, name):
        yield invalid(path, value, _in_body(path, f'must be of type {name}: "{value}"'))


def _matches(pattern: str, value: str, work: ValidationSteps) -> bool:
    work.add(len(value) // _COMPARED_IN_A_STEP)
    compiled = compile_pattern.cache_info().misses
    try:
        found = compile_pattern(pattern).search(value) is not None
        if compile_pattern.cache_info().misses > compiled:
            work.add(_STEPS_TO_COMPILE)
        return found
    except EvaluationError:
        return True  # the definition is from an earlier version that did not check patterns


def _list_problems(
    value: list[Any], schema: Json, path: str, work: ValidationSteps, old: Any
) -> Iterator[FieldProblem]:
    least, most = schema.get("minItems"), schema.get("maxItems")
    if most is not None and len(value) > most:
        yield _too_many(path, len(value), most)
    if least is not None and len(value) < least:
        yield invalid(path, len(value), _in_body(path, f"should have at least {least} items"))
    items = schema.get("items")
    if isinstance(items, dict):
        replaced_by = match_old_items(old, schema)
        for index, each in enumerate(value):
            yield from schema_problems(each, items, f"{path}[{index}]", work, replaced_by(each))
    yield from _repeated(value, schema, path)


def _too_many(path: str, count: int, most: int) -> FieldProblem:
    body = f"Too many: {count}: must have at most {most} items"
    return FieldProblem(path, "FieldValueTooMany", body)


def _repeated(value: list[Any], schema: Json, path: str) -> Iterator[FieldProblem]:
    """Find duplicate items in lists of type `set` or `map`."""
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    seen: set[Any] = set()
    if kind not in ("set", "map"):
        return
    for index, each in enumerate(value):
        if kind == "set":
            identity: Any = each
        elif isinstance(each, dict):
            identity = {key: each[key] for key in keys if key in each}
        else:
            continue
        known_by = _hashable(identity)
        if known_by in seen:
            yield duplicate(f"{path}[{index}]", identity)
        seen.add(known_by)


def _object_problems(
    value: Json, schema: Json, path: str, work: ValidationSteps, old: Any
) -> Iterator[FieldProblem]:
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if most is not None and len(value) > most:
        yield _too_many(path, len(value), most)
    if least is not None and len(value) < least:
        yield invalid(path, len(value), _in_body(path, f"should have at least {least} properties"))
    for name in schema.get("required") or ():
        if name not in value:
            yield required(f"{path}.{name}" if path else name)
    for key, item in value.items():
        part = part_of(schema, key)
        if part is not None:
            before = old.get(key, ABSENT) if isinstance(old, dict) else ABSENT
            inner = f"{path}.{key}" if path else key
            yield from schema_problems(item, part, inner, work, before)


def _combination_problems(
    value: Any, schema: Json, path: str, work: ValidationSteps
) -> Iterator[FieldProblem]:
    """`allOf`, `anyOf`, `oneOf` and `not`."""

    def problem(text: str) -> FieldProblem:
        return invalid(path or "<nil>", "", f'"{path}" {text}')

    def fits(choice: Json) -> bool:
        return not any(schema_problems(value, choice, path, work))

    for each in schema.get("allOf") or ():
        found = list(schema_problems(value, each, path, work))
        if found:
            yield from found
            yield problem("must validate all the schemas (allOf)")
    choices = schema.get("anyOf")
    if choices and not any(map(fits, choices)):
        yield problem("must validate at least one schema (anyOf)")
    choices = schema.get("oneOf")
    if choices:
        count = sum(map(fits, choices))
        if count != 1:
            found_text = f"Found {count} valid alternatives" if count else "Found none valid"
            yield problem(f"must validate one and only one schema (oneOf). {found_text}")
    unwanted = schema.get("not")
    if unwanted and fits(unwanted):
        yield problem("must not validate the schema (not)")
