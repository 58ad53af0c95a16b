"""The parser: turns tokens into a syntax tree, with expanded macros.

It is a recursive descent parser with precedence climbing: three Python calls per level of nesting.
An expression with more than `MAX_DEPTH` levels of nesting or chained operators is rejected, as are
texts longer than `MAX_LENGTH`, because later stages may recurse over the tree.
"""

from __future__ import annotations

from typing import Final

from kubesched.foundation.cel.language import macros
from kubesched.foundation.cel.language.cel_errors import CelCompileError, ExpressionSizeError
from kubesched.foundation.cel.language.cel_values import MAX_INT, Value
from kubesched.foundation.cel.language.lexer import Token, read_tokens
from kubesched.foundation.cel.language.source import Source
from kubesched.foundation.cel.language.syntax import (
    Binary,
    Call,
    Conditional,
    Identifier,
    Index,
    ListLiteral,
    Literal,
    Logical,
    MapEntry,
    MapLiteral,
    MessageField,
    MessageLiteral,
    Select,
    SyntaxNode,
    Unary,
    qualified_name,
)
from kubesched.foundation.cel.language.syntax_errors import find_syntax_errors

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "parse"]

MAX_DEPTH: Final = 250
MAX_LENGTH: Final = 100_000

_PRECEDENCE: Final = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 3,
    "<=": 3,
    ">": 3,
    ">=": 3,
    "in": 3,
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}
_LOGICAL: Final = frozenset(("||", "&&"))
_TERNARY: Final = 0
_CONSTANTS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}
_RESERVED: Final = frozenset(
    (
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
        "loop", "namespace", "package", "return", "var", "void", "while",
    )
)  # fmt: skip


def parse(source: Source) -> SyntaxNode:
    """Return the syntax tree of an expression.

    Raises:
        CelCompileError: the text is not an expression, or is too long or too deeply nested.
    """
    if len(source.text) > MAX_LENGTH:
        raise ExpressionSizeError(
            f"ERROR: <input>:-1:0: expression code point size exceeds limit: "
            f"size: {len(source.text)}, limit {MAX_LENGTH}"
        )
    try:
        return _Parser(source).whole()
    except ExpressionSizeError:
        raise
    except CelCompileError as error:
        raise _in_words_of_reference(source.text) or error from None


def _in_words_of_reference(text: str) -> CelCompileError | None:
    """Return all syntax errors of a text as one error; None if there is none."""
    problems = find_syntax_errors(text)
    if not problems:
        return None
    source = Source(text)
    for problem in problems:
        has_place = problem.position >= 0
        message = f"Syntax error: {problem.message}" if has_place else problem.message
        source.report(problem.position, message)
    return source.problems()


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._tokens = read_tokens(source)
        self._next = 0
        self._depth = 0

    def whole(self) -> SyntaxNode:
        node = self._expression()
        if (token := self._peek()).kind != "end":
            raise self._unexpected(token)
        return node

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _accept(self, kind: str) -> Token | None:
        return self._take() if self._tokens[self._next].kind == kind else None

    def _expect(self, kind: str) -> Token:
        token = self._take()
        if token.kind != kind:
            raise self._unexpected(token, kind)
        return token

    def _unexpected(self, token: Token, wanted: str = "") -> CelCompileError:
        wanted = f", expecting {wanted!r}" if wanted else ""
        return self._source.syntax_error(token.position, f"unexpected {token.text!r}{wanted}")

    def _expression(self, least: int = _TERNARY) -> SyntaxNode:
        """An expression whose operators bind at least as tightly as `least`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._too_deep()
        left = self._unary()
        chained = 0
        while True:
            token = self._peek()
            operator = "in" if token.kind == "name" and token.text == "in" else token.kind
            if operator == "?" and least == _TERNARY:
                left = self._conditional(left)
                continue
            precedence = _PRECEDENCE.get(operator, -1)
            if precedence < max(least, 1):
                break
            self._take()
            if operator in _LOGICAL:
                left = self._logical(token, left, precedence)
                continue
            right = self._expression(precedence + 1)
            left = Binary(token.position, operator, left, right)
            chained += 1
            if chained > MAX_DEPTH:
                raise self._too_deep()
        self._depth -= 1
        return left

    def _too_deep(self) -> CelCompileError:
        return ExpressionSizeError(
            f"ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}"
        )

    def _logical(self, token: Token, first: SyntaxNode, precedence: int) -> SyntaxNode:
        """The rest of a chain of the same logical operator."""
        terms = [first, self._expression(precedence + 1)]
        while self._accept(token.kind):
            terms.append(self._expression(precedence + 1))
        return Logical(token.position, token.kind, tuple(terms))

    def _conditional(self, condition: SyntaxNode) -> SyntaxNode:
        position = self._expect("?").position
        positive = self._expression(1)
        self._expect(":")
        return Conditional(position, condition, positive, self._expression())

    def _unary(self) -> SyntaxNode:
        """An operand with any number of `!`, or of `-`, before it; two of a kind cancel out."""
        token = self._peek()
        if token.kind not in ("!", "-"):
            return self._member(self._primary())
        count = 0
        while self._accept(token.kind):
            count += 1
        number = self._peek()
        if token.kind == "-" and type(number.value) in (int, float):
            # The sign belongs to the number: the least integer has no positive counterpart.
            self._take()
            operand = self._member(Literal(number.position, -number.value))
            count -= 1
        elif number.kind == "-" and type(self._tokens[self._next + 1].value) in (int, float):
            self._take()
            operand = self._member(Literal(number.position, -self._take().value))
        else:
            operand = self._member(self._primary())
        return Unary(token.position, token.kind, operand) if count % 2 else operand

    def _primary(self) -> SyntaxNode:
        token = self._take()
        match token.kind:
            case "value":
                if type(token.value) is int and token.value > MAX_INT:
                    raise self._source.fail(token.position, "invalid int literal")
                return Literal(token.position, token.value)
            case "name":
                return self._name(token)
            case ".":
                return self._name(self._expect("name"))
            case "(":
                node = self._expression()
                self._expect(")")
                return node
            case "[":
                return self._list(token)
            case "{":
                return self._map(token)
            case _:
                raise self._unexpected(token)

    def _name(self, token: Token) -> SyntaxNode:
        name = token.text
        if name in _CONSTANTS:
            return Literal(token.position, _CONSTANTS[name])
        if name == "in":
            raise self._unexpected(token)
        if opening := self._accept("("):
            return self._call(opening, name, None)
        if name in _RESERVED:
            raise self._source.fail(token.position, f"reserved identifier: {name}")
        return Identifier(token.position, name)

    def _member(self, node: SyntaxNode) -> SyntaxNode:
        """What follows an operand: selections, calls, indices."""
        for _ in range(MAX_DEPTH):
            token = self._peek()
            if token.kind == ".":
                node = self._selection(node)
            elif token.kind == "[":
                self._take()
                optional = self._accept("?") is not None
                key = self._expression()
                self._expect("]")
                node = Index(token.position, node, key, optional=optional)
            elif token.kind == "{" and (name := qualified_name(node)) is not None:
                return self._message(token, name)
            else:
                return node
        raise self._too_deep()

    def _selection(self, node: SyntaxNode) -> SyntaxNode:
        dot = self._take()
        optional = self._accept("?") is not None
        name = self._expect("name")
        if name.text == "in" or name.text in _CONSTANTS:
            raise self._unexpected(name)
        if not optional and (opening := self._accept("(")):
            return self._call(opening, name.text, node)
        return Select(dot.position, node, name.text, optional=optional)

    def _call(self, opening: Token, function: str, target: SyntaxNode | None) -> SyntaxNode:
        arguments = self._arguments()
        expanded = macros.expand(self._source, opening.position, function, target, arguments)
        if expanded is not None:
            return expanded
        return Call(opening.position, function, target, arguments)

    def _arguments(self) -> tuple[SyntaxNode, ...]:
        arguments: list[SyntaxNode] = []
        while not self._accept(")"):
            if arguments:
                self._expect(",")
            arguments.append(self._expression())
        return tuple(arguments)

    def _list(self, opening: Token) -> SyntaxNode:
        elements: list[SyntaxNode] = []
        optional: list[bool] = []
        while not self._accept("]"):
            optional.append(self._accept("?") is not None)
            elements.append(self._expression())
            if not self._accept(","):
                self._expect("]")
                break
        return ListLiteral(opening.position, tuple(elements), tuple(optional))

    def _map(self, opening: Token) -> SyntaxNode:
        entries: list[MapEntry] = []
        while not self._accept("}"):
            optional = self._accept("?") is not None
            key = self._expression()
            self._expect(":")
            entries.append(MapEntry(key, self._expression(), optional=optional))
            if not self._accept(","):
                self._expect("}")
                break
        return MapLiteral(opening.position, tuple(entries))

    def _message(self, opening: Token, name: str) -> SyntaxNode:
        self._take()
        fields: list[MessageField] = []
        while not self._accept("}"):
            optional = self._accept("?") is not None
            field = self._expect("name").text
            self._expect(":")
            fields.append(MessageField(field, self._expression(), optional=optional))
            if not self._accept(","):
                self._expect("}")
                break
        return MessageLiteral(opening.position, name, tuple(fields))
