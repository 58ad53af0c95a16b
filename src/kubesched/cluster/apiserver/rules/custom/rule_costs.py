"""Worst-case cost estimates of CEL rules, from their text and their schema.

The server refuses definitions whose rules could be too expensive. Lists, maps and strings without
a declared limit count as large as a request can be. The estimates are not higher than the
reference's, so this server accepts every definition that the reference accepts.
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.cluster.apiserver.rules.schema.definitions import Json
from kubesched.foundation.cel.language.parser import parse
from kubesched.foundation.cel.language.source import Source
from kubesched.foundation.cel.language.syntax import (
    Binary,
    Bind,
    Call,
    Comprehension,
    Conditional,
    Identifier,
    Index,
    ListLiteral,
    Literal,
    MapLiteral,
    OptionalMap,
    Select,
    SyntaxNode,
    children,
)

__all__ = ["LARGEST_COST", "cost_problem", "estimate_rule_cost", "max_items"]

LARGEST_COST: Final = 10_000_000
_LARGEST_REQUEST: Final = 3 * 1024 * 1024
_PER_CHARACTER: Final = 0.1
_LIST_LITERAL, _MAP_LITERAL = 10, 30
_TEXT_CALLS: Final = frozenset(
    {"contains", "endsWith", "find", "findAll", "indexOf", "lastIndexOf", "matches", "replace"}
    | {"split", "startsWith"}
)
_SMALLEST: Final = {"string": 2, "array": 2, "object": 2, "boolean": 4, "integer": 1, "number": 1}

Shapes = dict[str, Any]


def estimate_rule_cost(text: str, schema: Json) -> float:
    """Estimate the maximum cost of one evaluation of a rule on a value of a schema."""
    shapes: Shapes = {"self": schema, "oldSelf": schema}
    return _cost(parse(Source(text)), shapes)


def cost_problem(cost: float) -> str:
    """Return the problem of a rule with this cost; empty if the cost is within the budget."""
    if cost <= LARGEST_COST:
        return ""
    factor = cost / LARGEST_COST
    shown = "more than 100x" if factor > 100 else f"{factor:.1f}x"
    return (
        f"estimated rule cost exceeds budget by factor of {shown} (try simplifying the rule, or "
        "adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
        "declared)"
    )


def max_items(schema: Any) -> int:
    """Return the maximum number of items or entries in a value of a schema."""
    if not isinstance(schema, dict):
        return 1
    if schema.get("type") == "array":
        return _limit(schema, "maxItems", schema.get("items"), extra=1)
    return _limit(schema, "maxProperties", schema.get("additionalProperties"), extra=6)


def _limit(schema: Json, keyword: str, part: Any, *, extra: int) -> int:
    declared = schema.get(keyword)
    if isinstance(declared, int) and not isinstance(declared, bool):
        return declared
    return (_LARGEST_REQUEST - 2) // (_smallest(part) + extra)


def _smallest(schema: Any) -> int:
    """Return the minimum size of a value in JSON, in bytes."""
    if not isinstance(schema, dict):
        return 1
    if schema.get("type") == "string" and schema.get("format") in ("date", "date-time"):
        return 12
    return _SMALLEST.get(str(schema.get("type")), 1)


def _length(schema: Any) -> int:
    """Return the maximum length of a string of a schema; 1 for other types."""
    if not isinstance(schema, dict) or schema.get("type") != "string":
        return 1
    declared = schema.get("maxLength")
    if isinstance(declared, int):
        return declared
    if isinstance(values := schema.get("enum"), list):
        return max((len(each) for each in values if isinstance(each, str)), default=1)
    return _LARGEST_REQUEST - 2


def _shape(node: SyntaxNode, shapes: Shapes) -> Any:
    """Return the schema of the value of an expression; None if it is unknown."""
    match node:
        case Identifier():
            return shapes.get(node.name)
        case Literal():
            if isinstance(node.value, str):
                return {"type": "string", "maxLength": len(node.value)}
            return None
        case Select():
            operand = _shape(node.operand, shapes)
            if not isinstance(operand, dict):
                return None
            found = (operand.get("properties") or {}).get(node.field)
            return found if found is not None else operand.get("additionalProperties")
        case Index():
            operand = _shape(node.operand, shapes)
            return operand and (operand.get("items") or operand.get("additionalProperties"))
        case Comprehension() if node.kind == "filter":
            return _shape(node.operand, shapes)
        case ListLiteral():
            return {"type": "array", "maxItems": len(node.elements)}
        case MapLiteral():
            return {"type": "object", "maxProperties": len(node.entries)}
    return None


def _cost(node: SyntaxNode, shapes: Shapes) -> float:
    match node:
        case Literal():
            return 0
        case Identifier():
            return 1
        case Select():
            return _cost(node.operand, shapes) + (not node.test_only)
        case Binary():
            return _binary(node, shapes)
        case Conditional():
            branches = (_cost(node.positive, shapes), _cost(node.negative, shapes))
            return _cost(node.condition, shapes) + max(branches)
        case Comprehension():
            return _loop(node, shapes)
        case Bind() | OptionalMap():
            value = node.value if isinstance(node, Bind) else node.operand
            inner = {**shapes, node.name: _shape(value, shapes)}
            return _cost(value, shapes) + _cost(node.body, inner) + 1
        case Call():
            inside = sum(_cost(each, shapes) for each in node.operands)
            if node.function in _TEXT_CALLS and node.target is not None:
                return inside + _length(_shape(node.target, shapes)) * _PER_CHARACTER
            return inside + 1
    own = {ListLiteral: _LIST_LITERAL, MapLiteral: _MAP_LITERAL}.get(type(node), 1)
    return own + sum(_cost(each, shapes) for each in children(node))


def _binary(node: Binary, shapes: Shapes) -> float:
    inside = _cost(node.left, shapes) + _cost(node.right, shapes)
    left, right = _shape(node.left, shapes), _shape(node.right, shapes)
    if node.operator == "in":
        return inside + (max_items(right) if isinstance(right, dict) else 1)
    lengths = [_length(each) for each in (left, right) if isinstance(each, dict)]
    # A comparison ends with the shorter of two strings.
    return inside + max(1, min(lengths, default=1) * _PER_CHARACTER)


def _loop(node: Comprehension, shapes: Shapes) -> float:
    walked = _shape(node.operand, shapes)
    times = max_items(walked) if isinstance(walked, dict) else 1
    element: Any = None
    if isinstance(walked, dict):
        element = walked.get("items") if walked.get("type") == "array" else {"type": "string"}
    inner = {**shapes, node.variables[-1]: element}
    body = _cost(node.body, inner)
    if node.condition is not None:
        body += _cost(node.condition, inner)
    return _cost(node.operand, shapes) + times * (body + 2)
