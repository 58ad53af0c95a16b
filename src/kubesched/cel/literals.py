"""What a constant in an expression must be, beyond its type.

A literal list or map holds values of one type; a literal pattern, duration or time that a
function is called with must be a valid one; a literal format fits its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kubesched.cel import conversions, regex
from kubesched.cel.errors import EvaluationError
from kubesched.cel.syntax import Call, ListLiteral, Literal, MapLiteral, Node, children
from kubesched.cel.types import Type

if TYPE_CHECKING:
    from kubesched.cel.source import Source

__all__ = ["check_literals"]

_PARSERS: Final[dict[str, Callable[[str], object]]] = {
    "duration": conversions.parse_duration,
    "timestamp": conversions.parse_timestamp,
    "matches": regex.compile_pattern,
}


def check_literals(source: Source, root: Node) -> None:
    """Report every constant that cannot be what it is used for."""
    pending = [root]
    while pending:
        node = pending.pop()
        pending.extend(reversed(children(node)))
        if isinstance(node, Call):
            _check_argument(source, node)
            if node.function == "format" and node.target is not None:
                pending = [each for each in pending if each is not node.arguments[0]]
                pending.extend(children(node.arguments[0]))
        elif isinstance(node, ListLiteral):
            _check_alike(source, list(zip(node.elements, node.optional, strict=True)))
        elif isinstance(node, MapLiteral):
            _check_alike(source, [(entry.key, False) for entry in node.entries])
            _check_alike(source, [(entry.value, entry.optional) for entry in node.entries])


def _check_argument(source: Source, node: Call) -> None:
    parse = _PARSERS.get(node.function)
    if parse is None or not node.arguments:
        return
    argument = node.arguments[-1]
    if not isinstance(argument, Literal) or type(argument.value) is not str:
        return
    try:
        parse(argument.value)
    except EvaluationError:
        source.report(argument.position, f"invalid {node.function} argument")


def _check_alike(source: Source, parts: list[tuple[Node, bool]]) -> None:
    first: Type | None = None
    for node, optional in parts:
        found = node.type
        if optional and found.parameters:
            found = found.parameters[0]
        if first is None:
            first = found
        elif found != first:
            source.report(node.position, f"expected type '{first}' but found '{found}'")
            return
