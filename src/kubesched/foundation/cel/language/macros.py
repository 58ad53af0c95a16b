"""Macros: calls that are rewritten before type checking.

A call is a macro only with the right name, style and number of arguments. Otherwise it is an
ordinary call, and the checker reports its errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kubesched.foundation.cel.language.syntax import (
    Bind,
    Comprehension,
    Identifier,
    OptionalMap,
    Select,
    SyntaxNode,
)

if TYPE_CHECKING:
    from kubesched.foundation.cel.language.source import Source

__all__ = ["expand"]

# How many arguments each comprehension takes, the variables included.
_ONE_VARIABLE: Final = {
    ("all", 2),
    ("exists", 2),
    ("exists_one", 2),
    ("existsOne", 2),
    ("filter", 2),
    ("map", 2),
    ("map", 3),
    ("sortBy", 2),
}
_TWO_VARIABLES: Final = {
    ("all", 3),
    ("exists", 3),
    ("existsOne", 3),
    ("transformList", 3),
    ("transformList", 4),
    ("transformMap", 3),
    ("transformMap", 4),
    ("transformMapEntry", 3),
    ("transformMapEntry", 4),
}
_SAME: Final = {"exists_one": "existsOne"}
_SIMPLE_NAME: Final = "argument must be a simple name"
_IDENTIFIER: Final = "argument is not an identifier"
_BIND: Final = "cel.bind() variable names must be simple identifiers"


def expand(
    source: Source,
    position: int,
    function: str,
    target: SyntaxNode | None,
    arguments: tuple[SyntaxNode, ...],
) -> SyntaxNode | None:
    """Return the expansion of a macro; None if the call is not a macro.

    Raises:
        CelCompileError: a macro is used wrongly.
    """
    count = len(arguments)
    if target is None:
        return _has(source, position, arguments[0]) if (function, count) == ("has", 1) else None
    if isinstance(target, Identifier) and target.name == "cel" and (function, count) == ("bind", 3):
        name = _variable(source, arguments[0], _BIND)
        return Bind(position, name, arguments[1], arguments[2])
    if function in ("optMap", "optFlatMap") and count == 2:
        refusal = f"{function}() variable name must be a simple identifier"
        name = _variable(source, arguments[0], refusal)
        return OptionalMap(position, target, name, arguments[1], flat=function == "optFlatMap")
    if (function, count) in _ONE_VARIABLE:
        refusal = _IDENTIFIER if function in ("filter", "map") else _SIMPLE_NAME
        names: tuple[str, ...] = (_variable(source, arguments[0], refusal),)
    elif (function, count) in _TWO_VARIABLES:
        first, second = arguments[0], arguments[1]
        names = (_variable(source, first, _SIMPLE_NAME), _variable(source, second, _SIMPLE_NAME))
        if names[0] == names[1]:
            raise source.fail(second.position, f"duplicate variable name: {names[0]}")
    else:
        return None
    rest = arguments[len(names) :]
    condition = rest[0] if len(rest) == 2 else None
    if function == "filter":
        body: SyntaxNode = Identifier(arguments[0].position, names[0])
        condition = rest[0]
    else:
        body = rest[-1]
    kind = _SAME.get(function, function)
    return Comprehension(position, kind, target, names, body, condition)


def _has(source: Source, position: int, argument: SyntaxNode) -> SyntaxNode:
    if not isinstance(argument, Select):
        raise source.fail(argument.position, "invalid argument to has() macro")
    return Select(
        position, argument.operand, argument.field, optional=argument.optional, test_only=True
    )


def _variable(source: Source, node: SyntaxNode, refusal: str) -> str:
    if not isinstance(node, Identifier):
        raise source.fail(node.position, refusal)
    return node.name
