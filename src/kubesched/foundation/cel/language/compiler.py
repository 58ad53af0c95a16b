"""The compiler: turns a typed syntax tree into Python closures.

Every node becomes a function of a frame: a list whose first element is the cost so far, followed by
the variables, each in a slot that is fixed at compile time. An evaluation is a chain of such calls
without lookups by name.

Constant costs are summed at compile time and charged once per block of code that always runs as a
whole: at the start, and in the branches of `&&`, `||`, `?:` and loops. A program without loops and
without calls whose cost depends on arguments cannot reach the limit, so it counts no costs.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kubesched.foundation.cel.language import logic
from kubesched.foundation.cel.language.calls import compile_call, is_constant_call
from kubesched.foundation.cel.language.cel_errors import CostLimitError, EvaluationError
from kubesched.foundation.cel.language.cel_values import (
    NONE,
    UNSET,
    OptionalValue,
    TypeValue,
    Value,
)
from kubesched.foundation.cel.language.closures import CompiledNode, Frame, Run
from kubesched.foundation.cel.language.comparisons import compile_binary
from kubesched.foundation.cel.language.expression_types import Type
from kubesched.foundation.cel.language.loops import compile_loop
from kubesched.foundation.cel.language.operations import NONE_FOUND, find, index, lookup, negate
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
    children,
    qualified_name,
)

if TYPE_CHECKING:
    from kubesched.foundation.cel.language.environment import Environment

__all__ = ["Compiler"]

_LIST_COST: Final = 10
_MAP_COST: Final = 30
_MESSAGE_COST: Final = 40


class Compiler:
    """Compiles one expression."""

    def __init__(
        self, environment: Environment, root: SyntaxNode, slots: Mapping[str, int]
    ) -> None:
        self._environment = environment
        self._scopes: list[Mapping[str, CompiledNode]] = [
            {name: CompiledNode(operator.itemgetter(slot), 1) for name, slot in slots.items()}
        ]
        self.frame_size = 1 + len(slots)
        self.limit = environment.cost_limit
        self.metered = _is_metered(root)

    def compile(self, node: SyntaxNode) -> CompiledNode:
        """Compile one expression."""
        match node:
            case Literal():
                value = node.value
                return CompiledNode(lambda _frame: value, 0)
            case Identifier():
                return self._identifier(node.name)
            case Select():
                return self._select(node)
            case Index():
                return self._index(node)
            case Binary():
                return compile_binary(self, node)
            case Call():
                return compile_call(self, node)
            case Logical():
                return self._logical(node)
            case Conditional():
                return self._conditional(node)
            case Unary():
                return self._unary(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return compile_loop(self, node)
            case Bind():
                return self._bind(node)
            case OptionalMap():
                return self._optional_map(node)
            case MessageLiteral():
                return self._message(node)
            case _:
                raise AssertionError(f"unknown node {node!r}")

    def charged(self, code: CompiledNode) -> Run:
        """Compile a node as a block that charges its constant cost when it starts."""
        run, cost, limit = code.run, code.cost, self.limit
        if not self.metered or not cost:
            return run

        def charge(frame: Frame) -> Value:
            frame[0] += cost
            if frame[0] > limit:
                raise CostLimitError
            return run(frame)

        return charge

    def new_slot(self) -> int:
        """Allocate a slot in the frame for a local variable."""
        self.frame_size += 1
        return self.frame_size - 1

    def enter(self, variables: Mapping[str, CompiledNode]) -> None:
        """Open a scope with these names."""
        self._scopes.append(variables)

    def leave(self) -> None:
        self._scopes.pop()

    def in_scope(self, names: Mapping[str, int], node: SyntaxNode) -> CompiledNode:
        """Compile an expression with access to the variables in some slots."""
        self.enter(
            {name: CompiledNode(operator.itemgetter(slot), 1) for name, slot in names.items()}
        )
        code = self.compile(node)
        self.leave()
        return code

    def _identifier(self, name: str) -> CompiledNode:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        value = TypeValue(self._environment.type_named(name))
        return CompiledNode(lambda _frame: value, 1)

    def _select(self, node: Select) -> CompiledNode:
        name = qualified_name(node)
        if name is not None and self._environment.is_type(name):
            return self._identifier(name)
        operand, cost = self.compile(node.operand)
        field = self._environment.key_of(_held(node.operand.type), node.field)
        if node.test_only:
            return CompiledNode(_presence(operand, field), cost)
        if node.optional:
            return CompiledNode(_optional_lookup(operand, field), cost + 1)
        return CompiledNode(_select_of(operand, field), cost + 1)

    def _index(self, node: Index) -> CompiledNode:
        operand, cost = self.compile(node.operand)
        if isinstance(node.key, Literal) and type(node.key.value) is str:
            text = node.key.value
            if node.optional:
                return CompiledNode(_optional_lookup(operand, text), cost + 1)
            return CompiledNode(_select_of(operand, text), cost + 1)
        key, key_cost = self.compile(node.key)
        cost += key_cost + 1
        if node.optional:
            return CompiledNode(lambda frame: _optional_find(operand(frame), key(frame)), cost)
        return CompiledNode(lambda frame: _index_of(operand(frame), key(frame)), cost)

    def _logical(self, node: Logical) -> CompiledNode:
        first = self.compile(node.terms[0])
        rest = [self.charged(self.compile(term)) for term in node.terms[1:]]
        make = logic.all_of if node.operator == "&&" else logic.any_of
        return CompiledNode(make((first.run, *rest)), first.cost + len(rest))

    def _conditional(self, node: Conditional) -> CompiledNode:
        condition, cost = self.compile(node.condition)
        positive = self.charged(self.compile(node.positive))
        negative = self.charged(self.compile(node.negative))
        return CompiledNode(logic.choice(condition, positive, negative), cost + 1)

    def _unary(self, node: Unary) -> CompiledNode:
        operand, cost = self.compile(node.operand)
        if node.operator == "!":
            return CompiledNode(logic.negation(operand), cost + 1)
        return CompiledNode(lambda frame: negate(operand(frame)), cost + 1)

    def _list(self, node: ListLiteral) -> CompiledNode:
        if (constant := constant_list(node)) is not None:
            return CompiledNode(lambda _frame: constant, 0)
        codes = [self.compile(element) for element in node.elements]
        cost = _LIST_COST + sum(code.cost for code in codes)
        runs = [code.run for code in codes]
        if any(node.optional):
            return CompiledNode(_list_with_optionals(runs, node.optional), cost)
        return CompiledNode(lambda frame: [run(frame) for run in runs], cost)

    def _map(self, node: MapLiteral) -> CompiledNode:
        entries: list[tuple[Run, Run, bool]] = []
        cost = _MAP_COST
        for entry in node.entries:
            key, value = self.compile(entry.key), self.compile(entry.value)
            entries.append((key.run, value.run, entry.optional))
            cost += key.cost + value.cost
        return CompiledNode(_map_of(entries), cost)

    def _message(self, node: MessageLiteral) -> CompiledNode:
        entries: list[tuple[Run, Run, bool]] = []
        cost = _MESSAGE_COST
        for field in node.fields:
            value = self.compile(field.value)
            entries.append((_constant(field.name), value.run, field.optional))
            cost += value.cost
        return CompiledNode(_map_of(entries), cost)

    def _bind(self, node: Bind) -> CompiledNode:
        """Compile `cel.bind`: the value is computed lazily."""
        slot = self.new_slot()
        value = self.charged(self.compile(node.value))

        def evaluate_once(frame: Frame) -> Value:
            known = frame[slot]
            if known is UNSET:
                known = frame[slot] = value(frame)
            return known

        self.enter({node.name: CompiledNode(evaluate_once, 1)})
        body, cost = self.compile(node.body)
        self.leave()

        def run(frame: Frame) -> Value:
            frame[slot] = UNSET
            return body(frame)

        return CompiledNode(run, cost)

    def _optional_map(self, node: OptionalMap) -> CompiledNode:
        operand, cost = self.compile(node.operand)
        slot = self.new_slot()
        body = self.charged(self.in_scope({node.name: slot}, node.body))
        flat = node.flat

        def run(frame: Frame) -> Value:
            given = operand(frame)
            if not isinstance(given, OptionalValue):
                raise EvaluationError("no such overload")
            if given is NONE:
                return NONE
            frame[slot] = given.value
            result = body(frame)
            return result if flat else OptionalValue(result)

        return CompiledNode(run, cost + 2)


def _constant(value: Value) -> Run:
    return lambda _frame: value


def _held(found: Type) -> Type:
    """Return the type inside an optional, or the type itself."""
    return found.parameters[0] if found.name == "optional_type" else found


def constant_list(node: SyntaxNode) -> list[Value] | None:
    """Return the elements if the node is a literal list of constants, otherwise None."""
    if not isinstance(node, ListLiteral) or any(node.optional):
        return None
    if all(isinstance(element, Literal) for element in node.elements):
        return [element.value for element in node.elements if isinstance(element, Literal)]
    return None


def _is_metered(node: SyntaxNode) -> bool:
    """Whether the cost of an evaluation depends on the input."""
    if isinstance(node, Comprehension | Bind | OptionalMap):
        return True
    if isinstance(node, Call) and not is_constant_call(node):
        varies = any(callable(each.cost) for each in node.overloads)
    else:
        varies = False
    return varies or any(map(_is_metered, children(node)))


def _select_of(operand: Run, field: str) -> Run:
    """`operand.field`, which on a map is the same as `operand["field"]`."""

    def run(frame: Frame) -> Value:
        value = operand(frame)
        try:
            return value[field]
        except (KeyError, TypeError):
            return _select_slowly(value, field)

    return run


def _select_slowly(value: Value, field: str) -> Value:
    if isinstance(value, OptionalValue):
        return _optional_find(value, field)
    return index(value, field)


def _index_of(value: Value, key: Value) -> Value:
    if isinstance(value, OptionalValue):
        return _optional_find(value, key)
    return index(value, key)


def _optional_lookup(operand: Run, field: str) -> Run:
    return lambda frame: _optional_find(operand(frame), field)


def _optional_find(value: Value, key: Value) -> OptionalValue:
    """Look up a key that may be absent, also inside an optional."""
    if isinstance(value, OptionalValue):
        if value is NONE:
            return NONE
        value = value.value
    found = lookup(value, key)
    return NONE if found is NONE_FOUND else OptionalValue(found)


def _presence(operand: Run, field: str) -> Run:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if isinstance(value, OptionalValue):
            value = None if value is NONE else value.value
        return isinstance(value, dict) and find(value, field) is not NONE_FOUND

    return run


def _list_with_optionals(runs: list[Run], optional: tuple[bool, ...]) -> Run:
    def run(frame: Frame) -> list[Value]:
        result: list[Value] = []
        for element, may_lack in zip(runs, optional, strict=True):
            value = element(frame)
            if not may_lack:
                result.append(value)
            elif not isinstance(value, OptionalValue):
                raise EvaluationError("cannot initialize optional list element from non-optional")
            elif value is not NONE:
                result.append(value.value)
        return result

    return run


def _map_of(entries: list[tuple[Run, Run, bool]]) -> Run:
    def run(frame: Frame) -> dict[Value, Value]:
        result: dict[Value, Value] = {}
        for key_of, value_of, may_lack in entries:
            key, value = key_of(frame), value_of(frame)
            if may_lack:
                if not isinstance(value, OptionalValue):
                    raise EvaluationError(
                        "cannot initialize optional entry from non-optional value"
                    )
                if value is NONE:
                    continue
                value = value.value
            try:
                result[key] = value
            except TypeError:
                raise EvaluationError("unsupported key type") from None
        return result

    return run
