"""The type checker: determines the type of every part of an expression.

The rules are those of the language. Overloads are tried in order and unified with the types of the
arguments. With dynamic arguments several overloads may match; if their results differ, the result
is dynamic. The elements of literal lists and maps must have one type. All errors are collected,
then raised together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kubesched.foundation.cel.language import expression_types as types
from kubesched.foundation.cel.language.cel_values import Duration, Timestamp, TypeValue, UInt
from kubesched.foundation.cel.language.expression_types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    Type,
    list_of,
    map_of,
    optional_of,
)
from kubesched.foundation.cel.language.literals import check_literals
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
    Logical,
    MapLiteral,
    MessageLiteral,
    OptionalMap,
    Select,
    SyntaxNode,
    Unary,
    qualified_name,
)
from kubesched.foundation.cel.language.unification import Substitutions, most_general

if TYPE_CHECKING:
    from kubesched.foundation.cel.language.declarations import Overload
    from kubesched.foundation.cel.language.environment import Environment
    from kubesched.foundation.cel.language.source import Source

__all__ = ["check"]

_LITERALS: Final[dict[type, Type]] = {
    bool: BOOL,
    int: INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    TypeValue: types.TYPE,
}
_RANGES: Final = frozenset(("list", "map", "dyn", "!error!"))


def check(source: Source, root: SyntaxNode, environment: Environment) -> Type:
    """Type the whole tree; returns the type of the expression.

    Raises:
        CelCompileError: there are type errors; it lists all of them.
    """
    checker = _Checker(source, environment)
    found = checker.check(root)
    source.raise_problems()
    result = checker.settle(found)
    check_literals(source, root)
    source.raise_problems()
    return result


class _Checker:
    def __init__(self, source: Source, environment: Environment) -> None:
        self._source = source
        self._environment = environment
        self._substitutions = Substitutions()
        self._scopes: list[Mapping[str, Type]] = []
        self._nodes: list[SyntaxNode] = []

    def settle(self, found: Type) -> Type:
        """Give every node its final type, after all type parameters are bound."""
        for node in self._nodes:
            node.type = self._substitutions.resolve(node.type, free_to_dyn=True)
        return self._substitutions.resolve(found, free_to_dyn=True)

    def check(self, node: SyntaxNode) -> Type:
        """Determine the type of one expression and store it in the node."""
        found = self._rule(node)
        node.type = found
        self._nodes.append(node)
        return found

    def _rule(self, node: SyntaxNode) -> Type:
        match node:
            case Literal():
                return _LITERALS[type(node.value)]
            case Identifier():
                return self._identifier(node, node.name)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case Binary():
                return self._binary(node)
            case Logical():
                return self._logical(node)
            case Index():
                return self._index(node)
            case Unary():
                return self._unary(node)
            case Conditional():
                return self._conditional(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
            case Bind():
                value = self.check(node.value)
                with self._scope({node.name: value}):
                    return self.check(node.body)
            case OptionalMap():
                return self._optional_map(node)
            case MessageLiteral():
                return self._message(node)
            case _:
                raise AssertionError(f"unknown node {node!r}")

    @contextmanager
    def _scope(self, variables: Mapping[str, Type]) -> Iterator[None]:
        self._scopes.append(variables)
        yield
        self._scopes.pop()

    def _variable(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return self._environment.identifier(name)

    def _identifier(self, node: SyntaxNode, name: str) -> Type:
        found = self._variable(name)
        return found if found is not None else self._undeclared(node, name)

    def _undeclared(self, node: SyntaxNode, name: str) -> Type:
        self._source.report(node.position, f"undeclared reference to '{name}' (in container '')")
        return ERROR

    def _mismatch(self, node: SyntaxNode, wanted: Type, found: Type) -> None:
        resolve = self._substitutions.resolve
        self._source.report(
            node.position, f"expected type '{resolve(wanted)}' but found '{resolve(found)}'"
        )

    def _require(self, node: SyntaxNode, wanted: Type, found: Type) -> None:
        if not self._substitutions.assignable(wanted, found):
            self._mismatch(node, wanted, found)

    def _select(self, node: Select) -> Type:
        name = qualified_name(node)
        if name is not None and (found := self._environment.identifier(name)) is not None:
            return found
        operand = self._substitutions.resolve(self.check(node.operand))
        target, was_optional = _unwrap(operand)
        found = self._field(node, target)
        if node.test_only:
            return BOOL
        if node.optional or was_optional:
            return optional_of(found)
        return found

    def _field(self, node: Select, target: Type) -> Type:
        if target.name == "map":
            return target.parameters[1]
        fields = self._environment.fields_of(target)
        if fields is not None:
            if node.field in fields:
                return fields[node.field]
            self._source.report(node.position, f"undefined field '{node.field}'")
            return ERROR
        if target.is_parameter:
            self._substitutions.assignable(DYN, target)
        elif not target.is_dynamic:
            self._source.report(node.position, f"type '{target}' does not support field selection")
        return DYN

    def _index(self, node: Index) -> Type:
        operand = self._substitutions.resolve(self.check(node.operand))
        key = self.check(node.key)
        target, was_optional = _unwrap(operand)
        if target.name == "list" and self._substitutions.assignable(key, INT):
            found = target.parameters[0]
        elif target.name == "map" and self._substitutions.assignable(key, target.parameters[0]):
            found = target.parameters[1]
        elif target.is_dynamic or target.is_parameter:
            found = DYN
        else:
            name = "_[?_]" if node.optional else "_[_]"
            return self._no_overload(node, name, (operand, key), member=False)
        return optional_of(found) if node.optional or was_optional else found

    def _unary(self, node: Unary) -> Type:
        operand = self.check(node.operand)
        if node.operator == "!":
            if self._substitutions.assignable(operand, BOOL):
                return BOOL
            return self._no_overload(node, "!_", (operand,), member=False)
        return self._resolve(node, "-_", (operand,), member=False)[0]

    def _binary(self, node: Binary) -> Type:
        operands = (self.check(node.left), self.check(node.right))
        name = f"_{node.operator}_" if node.operator != "in" else "@in"
        found, node.overloads = self._resolve(node, name, operands, member=False)
        return found

    def _logical(self, node: Logical) -> Type:
        for term in node.terms:
            found = self.check(term)
            if not self._substitutions.assignable(found, BOOL):
                self._mismatch(term, BOOL, found)
        return BOOL

    def _conditional(self, node: Conditional) -> Type:
        given = tuple(self.check(part) for part in (node.condition, node.positive, node.negative))
        wanted = self._substitutions.instantiate((BOOL, _A, _A))
        if self._substitutions.all_assignable(given, wanted):
            return self._substitutions.resolve(wanted[1])
        return self._no_overload(node, "_?_:_", given, member=False)

    def _call(self, node: Call) -> Type:
        arguments = tuple(self.check(argument) for argument in node.arguments)
        functions = self._environment.functions
        if node.target is None:
            if node.function not in functions:
                return self._undeclared(node, node.function)
            found, node.overloads = self._resolve(node, node.function, arguments, member=False)
            return found
        prefix = qualified_name(node.target)
        if prefix is not None and (name := f"{prefix}.{node.function}") in functions:
            node.function, node.target = name, None
            found, node.overloads = self._resolve(node, name, arguments, member=False)
            return found
        given = (self.check(node.target), *arguments)
        if node.function not in functions:
            return self._undeclared(node, node.function)
        found, node.overloads = self._resolve(node, node.function, given, member=True)
        return found

    def _resolve(
        self, node: SyntaxNode, function: str, given: tuple[Type, ...], *, member: bool
    ) -> tuple[Type, tuple[Overload, ...]]:
        """Return the result type and the matching overloads, of which there may be several."""
        result: Type | None = None
        fitting: list[Overload] = []
        for overload in self._environment.functions[function]:
            if overload.member is not member:
                continue
            signature = self._substitutions.instantiate((overload.result, *overload.parameters))
            if not self._substitutions.all_assignable(given, signature[1:]):
                continue
            fitting.append(overload)
            found = self._substitutions.resolve(signature[0])
            if result is None or result == found:
                result = found
            elif not result.is_dynamic:
                result = DYN
        if result is None:
            return self._no_overload(node, function, given, member=member), ()
        return result, tuple(fitting)

    def _no_overload(
        self, node: SyntaxNode, function: str, given: tuple[Type, ...], *, member: bool
    ) -> Type:
        texts = [str(self._substitutions.resolve(part, free_to_dyn=True)) for part in given]
        target = f"{texts.pop(0)}." if member else ""
        self._source.report(
            node.position,
            f"found no matching overload for '{function}' applied to "
            f"'{target}({', '.join(texts)})'",
        )
        return ERROR

    def _list(self, node: ListLiteral) -> Type:
        joined: Type | None = None
        for element, optional in zip(node.elements, node.optional, strict=True):
            joined = self._join(joined, self._element(element, optional=optional))
        return list_of(joined if joined is not None else self._substitutions.fresh())

    def _map(self, node: MapLiteral) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self._join(keys, self.check(entry.key))
            value = self._element(entry.value, optional=entry.optional)
            values = self._join(values, value)
        if keys is None or values is None:
            return map_of(self._substitutions.fresh(), self._substitutions.fresh())
        return map_of(keys, values)

    def _element(self, node: SyntaxNode, *, optional: bool) -> Type:
        found = self.check(node)
        if not optional:
            return found
        inner, was_optional = _unwrap(self._substitutions.resolve(found))
        if not was_optional and not inner.is_dynamic:
            self._mismatch(node, optional_of(inner), inner)
        return inner

    def _message(self, node: MessageLiteral) -> Type:
        for field in node.fields:
            self._element(field.value, optional=field.optional)
        if self._environment.makes(node.name):
            return DYN
        return self._undeclared(node, node.name)

    def _join(self, previous: Type | None, current: Type) -> Type:
        """Return the common type of the elements so far.

        The check for one type follows at the end.
        """
        if previous is None:
            return current
        if self._substitutions.assignable(previous, current):
            return most_general(previous, current)
        return DYN

    def _comprehension(self, node: Comprehension) -> Type:
        operand = self._substitutions.resolve(self.check(node.operand))
        variables = self._variables(node, operand)
        with self._scope(dict(zip(node.variables, variables, strict=True))):
            if node.condition is not None:
                self._require(node.condition, BOOL, self.check(node.condition))
            body = self.check(node.body)
            if node.kind in ("all", "exists", "existsOne"):
                self._require(node.body, BOOL, body)
                return BOOL
        if node.kind == "sortBy":
            return list_of(variables[0])
        if node.kind == "transformMap":
            key = operand.parameters[0] if operand.name == "map" else variables[0]
            return map_of(key, body)
        if node.kind == "transformMapEntry":
            inner = self._substitutions.instantiate((map_of(_A, _B),))[0]
            self._require(node.body, inner, body)
            return self._substitutions.resolve(inner)
        return list_of(body)

    def _variables(self, node: Comprehension, operand: Type) -> tuple[Type, ...]:
        """The types of a comprehension's variables."""
        two = len(node.variables) == 2
        if operand.name == "list":
            return (INT, operand.parameters[0]) if two else operand.parameters
        if operand.name == "map":
            return operand.parameters if two else operand.parameters[:1]
        if operand.is_parameter:
            self._substitutions.assignable(DYN, operand)
        elif operand.name not in _RANGES:
            self._source.report(
                node.operand.position,
                f"expression of type '{operand}' cannot be range of a comprehension "
                f"(must be list, map, or dynamic)",
            )
            return (ERROR, ERROR) if two else (ERROR,)
        return (DYN, DYN) if two else (DYN,)

    def _optional_map(self, node: OptionalMap) -> Type:
        operand = self._substitutions.resolve(self.check(node.operand))
        inner, was_optional = _unwrap(operand)
        if not was_optional and not operand.is_dynamic:
            function = "optFlatMap" if node.flat else "optMap"
            return self._no_overload(node, function, (operand,), member=True)
        with self._scope({node.name: inner if was_optional else DYN}):
            body = self.check(node.body)
        if not node.flat:
            return optional_of(body)
        wanted = self._substitutions.instantiate((optional_of(_A),))[0]
        self._require(node.body, wanted, body)
        return self._substitutions.resolve(wanted)


_A: Final = types.parameter("A")
_B: Final = types.parameter("B")


def _unwrap(found: Type) -> tuple[Type, bool]:
    """Return the type inside an optional, and whether it was an optional."""
    if found.name == "optional_type":
        return found.parameters[0], True
    return found, False
