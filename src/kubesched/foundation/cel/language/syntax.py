"""The syntax tree, which the parser builds and the checker annotates with types.

Operators and macros have node types of their own, so that each has one rule in the checker and one
in the compiler. `position` is the offset in the source to which errors point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kubesched.foundation.cel.language.expression_types import DYN, Type

if TYPE_CHECKING:
    from kubesched.foundation.cel.language.cel_values import Value
    from kubesched.foundation.cel.language.declarations import Overload

__all__ = [
    "Binary",
    "Bind",
    "Call",
    "Comprehension",
    "Conditional",
    "Identifier",
    "Index",
    "ListLiteral",
    "Literal",
    "Logical",
    "MapEntry",
    "MapLiteral",
    "MessageField",
    "MessageLiteral",
    "OptionalMap",
    "Select",
    "SyntaxNode",
    "Unary",
    "children",
    "qualified_name",
]


class SyntaxNode:
    """One expression. `type` is the type that the checker determined."""

    __slots__ = ("position", "type")

    def __init__(self, position: int) -> None:
        self.position = position
        self.type: Type = DYN


class Literal(SyntaxNode):
    """A constant."""

    __slots__ = ("value",)

    def __init__(self, position: int, value: Value) -> None:
        super().__init__(position)
        self.value = value


class Identifier(SyntaxNode):
    """A name: a variable, or a type."""

    __slots__ = ("name",)

    def __init__(self, position: int, name: str) -> None:
        super().__init__(position)
        self.name = name


class Select(SyntaxNode):
    """`operand.field`, `operand.?field` or `has(operand.field)`."""

    __slots__ = ("field", "operand", "optional", "test_only")

    def __init__(
        self,
        position: int,
        operand: SyntaxNode,
        field: str,
        *,
        optional: bool,
        test_only: bool = False,
    ) -> None:
        super().__init__(position)
        self.operand, self.field = operand, field
        self.optional, self.test_only = optional, test_only


class Index(SyntaxNode):
    """`operand[key]` or `operand[?key]`."""

    __slots__ = ("key", "operand", "optional")

    def __init__(
        self, position: int, operand: SyntaxNode, key: SyntaxNode, *, optional: bool
    ) -> None:
        super().__init__(position)
        self.operand, self.key, self.optional = operand, key, optional


class Unary(SyntaxNode):
    """`!operand` or `-operand`."""

    __slots__ = ("operand", "operator")

    def __init__(self, position: int, operator: str, operand: SyntaxNode) -> None:
        super().__init__(position)
        self.operator, self.operand = operator, operand


class Binary(SyntaxNode):
    """Arithmetic, a comparison, or `in`."""

    __slots__ = ("left", "operator", "overloads", "right")

    def __init__(self, position: int, operator: str, left: SyntaxNode, right: SyntaxNode) -> None:
        super().__init__(position)
        self.operator, self.left, self.right = operator, left, right
        self.overloads: tuple[Overload, ...] = ()


class Logical(SyntaxNode):
    """`a && b && …` or `a || b || …`, flat."""

    __slots__ = ("operator", "terms")

    def __init__(self, position: int, operator: str, terms: tuple[SyntaxNode, ...]) -> None:
        super().__init__(position)
        self.operator, self.terms = operator, terms


class Conditional(SyntaxNode):
    """`condition ? positive : negative`."""

    __slots__ = ("condition", "negative", "positive")

    def __init__(
        self, position: int, condition: SyntaxNode, positive: SyntaxNode, negative: SyntaxNode
    ) -> None:
        super().__init__(position)
        self.condition, self.positive, self.negative = condition, positive, negative


class Call(SyntaxNode):
    """A function or a method. The checker drops a target that was only a namespace."""

    __slots__ = ("arguments", "function", "overloads", "target")

    def __init__(
        self,
        position: int,
        function: str,
        target: SyntaxNode | None,
        arguments: tuple[SyntaxNode, ...],
    ) -> None:
        super().__init__(position)
        self.function, self.target, self.arguments = function, target, arguments
        self.overloads: tuple[Overload, ...] = ()

    @property
    def operands(self) -> tuple[SyntaxNode, ...]:
        """The target, if there is one, followed by the arguments."""
        return self.arguments if self.target is None else (self.target, *self.arguments)


class ListLiteral(SyntaxNode):
    """`[a, ?b]`: `optional` holds a flag per element."""

    __slots__ = ("elements", "optional")

    def __init__(
        self, position: int, elements: tuple[SyntaxNode, ...], optional: tuple[bool, ...]
    ) -> None:
        super().__init__(position)
        self.elements, self.optional = elements, optional


class MapEntry:
    """`key: value` or `?key: value`."""

    __slots__ = ("key", "optional", "value")

    def __init__(self, key: SyntaxNode, value: SyntaxNode, *, optional: bool) -> None:
        self.key, self.value, self.optional = key, value, optional


class MapLiteral(SyntaxNode):
    """`{key: value, …}`."""

    __slots__ = ("entries",)

    def __init__(self, position: int, entries: tuple[MapEntry, ...]) -> None:
        super().__init__(position)
        self.entries = entries


class MessageField:
    """`name: value` or `?name: value`."""

    __slots__ = ("name", "optional", "value")

    def __init__(self, name: str, value: SyntaxNode, *, optional: bool) -> None:
        self.name, self.value, self.optional = name, value, optional


class MessageLiteral(SyntaxNode):
    """`Name{field: value}`: a value of a type that expressions may construct."""

    __slots__ = ("fields", "name")

    def __init__(self, position: int, name: str, fields: tuple[MessageField, ...]) -> None:
        super().__init__(position)
        self.name, self.fields = name, fields


class Comprehension(SyntaxNode):
    """A macro that iterates over a list or map: `all`, `exists`, `map`, `transformList`, ….

    With one variable it is the element or key; with two they are the index or key, and the value.
    `condition` is the test of `filter`, or of `map` with three arguments.
    """

    __slots__ = ("body", "condition", "kind", "operand", "variables")

    def __init__(
        self,
        position: int,
        kind: str,
        operand: SyntaxNode,
        variables: tuple[str, ...],
        body: SyntaxNode,
        condition: SyntaxNode | None = None,
    ) -> None:
        super().__init__(position)
        self.kind, self.operand, self.variables = kind, operand, variables
        self.body, self.condition = body, condition


class Bind(SyntaxNode):
    """`cel.bind(name, value, body)`."""

    __slots__ = ("body", "name", "value")

    def __init__(self, position: int, name: str, value: SyntaxNode, body: SyntaxNode) -> None:
        super().__init__(position)
        self.name, self.value, self.body = name, value, body


class OptionalMap(SyntaxNode):
    """`operand.optMap(name, body)`, and `optFlatMap`, whose body is an optional itself."""

    __slots__ = ("body", "flat", "name", "operand")

    def __init__(
        self, position: int, operand: SyntaxNode, name: str, body: SyntaxNode, *, flat: bool
    ) -> None:
        super().__init__(position)
        self.operand, self.name, self.body, self.flat = operand, name, body, flat


def children(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    """Return the direct subexpressions."""
    match node:
        case Select() | Unary():
            return (node.operand,)
        case Index():
            return (node.operand, node.key)
        case Binary():
            return (node.left, node.right)
        case Logical():
            return node.terms
        case Conditional():
            return (node.condition, node.positive, node.negative)
        case Call():
            return node.operands
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return tuple(part for entry in node.entries for part in (entry.key, entry.value))
        case MessageLiteral():
            return tuple(field.value for field in node.fields)
        case Comprehension():
            inner = (node.operand, node.body)
            return inner if node.condition is None else (*inner, node.condition)
        case Bind():
            return (node.value, node.body)
        case OptionalMap():
            return (node.operand, node.body)
        case _:
            return _LEAF


_LEAF: Final[tuple[SyntaxNode, ...]] = ()


def qualified_name(node: SyntaxNode) -> str | None:
    """The dotted name that a chain of plain selections spells, or None."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test_only and not node.optional:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Identifier):
        return None
    parts.append(node.name)
    return ".".join(reversed(parts))
