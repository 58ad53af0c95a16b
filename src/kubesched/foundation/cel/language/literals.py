"""Checks of constants in an expression beyond their types.

The elements of a literal list or map must have one type. Literal patterns, durations and times as
arguments of functions must be valid. A literal format must fit its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kubesched.foundation.cel.language import conversions, regex
from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.expression_types import Type
from kubesched.foundation.cel.language.formatting import ACCEPTED, clauses, refusal_of
from kubesched.foundation.cel.language.syntax import (
    Call,
    ListLiteral,
    Literal,
    MapLiteral,
    SyntaxNode,
    children,
)

if TYPE_CHECKING:
    from kubesched.foundation.cel.language.source import Source

__all__ = ["check_literals"]

_PARSERS: Final[dict[str, Callable[[str], object]]] = {
    "duration": conversions.parse_duration,
    "timestamp": conversions.parse_timestamp,
    "matches": regex.compile_pattern,
}


def check_literals(source: Source, root: SyntaxNode) -> None:
    """Report every constant that is invalid where it is used."""
    pending = [root]
    while pending:
        node = pending.pop()
        pending.extend(children(node))
        if isinstance(node, Call):
            _check_argument(source, node)
            if node.function == "format" and isinstance(node.arguments[0], ListLiteral):
                # The arguments of a format may differ in type.
                pending = [each for each in pending if each is not node.arguments[0]]
                pending.extend(children(node.arguments[0]))
                _check_format(source, node, node.arguments[0])
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


def _check_alike(source: Source, parts: list[tuple[SyntaxNode, bool]]) -> None:
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


def _check_format(source: Source, node: Call, arguments: ListLiteral) -> None:
    if not isinstance(node.target, Literal) or type(node.target.value) is not str:
        return
    try:
        wanted = [clause.verb for clause in clauses(node.target.value) if clause.verb]
    except EvaluationError as error:
        source.report(node.target.position, str(error))
        return
    for verb, argument in zip(wanted, arguments.elements, strict=False):
        unfit = _unfit_for(verb, argument)
        if unfit is not None:
            source.report(unfit.position, refusal_of(verb, unfit.type.name))
            return
    if len(wanted) > len(arguments.elements):
        source.report(node.position, f"index {len(arguments.elements)} out of range")
    elif len(wanted) < len(arguments.elements):
        source.report(
            node.position,
            f"too many arguments supplied to string.format (expected {len(wanted)}, "
            f"got {len(arguments.elements)})",
        )


def _unfit_for(verb: str, argument: SyntaxNode) -> SyntaxNode | None:
    """Return the argument, or the part of it, that the clause does not take."""
    if argument.type.name != "dyn" and argument.type.name not in ACCEPTED[verb]:
        return argument
    if verb == "s" and isinstance(argument, ListLiteral | MapLiteral):
        return next((bad for each in children(argument) if (bad := _unfit_for(verb, each))), None)
    return None
