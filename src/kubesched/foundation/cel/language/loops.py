"""Comprehensions as closures: `all`, `exists`, `map`, `transformMap`, `sortBy`, ….

An iteration costs the body plus the expansion that the reference makes of the macro: the condition,
the step, and their variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kubesched.foundation.cel.language.cel_errors import EvaluationError, no_such_overload
from kubesched.foundation.cel.language.cel_values import Value, type_name
from kubesched.foundation.cel.language.closures import CompiledNode, Frame, NodeCompiler, Run
from kubesched.foundation.cel.language.operations import bounded
from kubesched.foundation.cel.language.ordering import sorted_by
from kubesched.foundation.cel.language.syntax import Comprehension, Literal

__all__ = ["compile_loop"]

_ALL_TURN: Final = 4
_EXISTS_TURN: Final = 5
_ONE_TURN: Final = 2
_APPEND_TURN: Final = 2
_LIST: Final = 10


def compile_loop(compiler: NodeCompiler, node: Comprehension) -> CompiledNode:
    """Compile a comprehension."""
    operand, cost = compiler.compile(node.operand)
    slots = {name: compiler.new_slot() for name in node.variables}
    slot = slots[node.variables[0]]
    items = _pairs if len(slots) == 2 else _elements
    body = compiler.in_scope(slots, node.body)
    body = CompiledNode(body.run, body.cost + _cost_of_turn(node))
    condition: Run | None = None
    if node.condition is not None:
        test = compiler.in_scope(slots, node.condition)
        condition = _unpacking(compiler.charged(CompiledNode(test.run, test.cost + 1)), slots)
    run = compiler.charged(body)
    if condition is None:
        run = _unpacking(run, slots)
    make = _MAKERS[node.kind]
    return CompiledNode(make(operand, items, slot, run, condition), cost + 1)


def _cost_of_turn(node: Comprehension) -> int:
    match node.kind:
        case "all":
            return _ALL_TURN
        case "exists":
            return _EXISTS_TURN
        case "existsOne":
            return _ONE_TURN
        case "map" | "filter" | "transformList" | "sortBy":
            constant = isinstance(node.body, Literal)
            return _APPEND_TURN if constant else _APPEND_TURN + _LIST
        case _:
            return _APPEND_TURN + 1


_Items = Callable[[Value], Iterable[Value]]


def _elements(value: Value) -> Iterable[Value]:
    """Return the values of a comprehension with one variable: elements, or keys of a map."""
    if isinstance(value, list | tuple | dict):
        return value
    raise _not_iterable(value)


def _pairs(value: Value) -> Iterable[Value]:
    """What a comprehension with two variables walks: index or key, and value."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    raise _not_iterable(value)


def _not_iterable(value: Value) -> EvaluationError:
    return EvaluationError(f"got '{type_name(value)}', expected iterable type")


def _unpacking(run: Run, slots: dict[str, int]) -> Run:
    """Code that finds a pair in the slot of its first variable and takes it apart."""
    if len(slots) == 1:
        return run
    first, second = slots.values()

    def unpack(frame: Frame) -> Value:
        frame[first], frame[second] = frame[first]
        return run(frame)

    return unpack


def _quantifier(*, settles: bool) -> Callable[[Run, _Items, int, Run, Run | None], Run]:
    """`all`, which false settles, or `exists`, which true settles."""

    def make(operand: Run, items: _Items, slot: int, body: Run, _condition: Run | None) -> Run:
        def run(frame: Frame) -> bool:
            failure: EvaluationError | None = None
            for item in items(operand(frame)):
                frame[slot] = item
                try:
                    value: object = body(frame)
                except EvaluationError as error:
                    failure = error
                    continue
                if value is settles:
                    return settles
                if type(value) is not bool:
                    failure = no_such_overload()
            if failure is not None:
                raise failure
            return not settles

        return run

    return make


def _exists_one(operand: Run, items: _Items, slot: int, body: Run, _condition: Run | None) -> Run:
    def run(frame: Frame) -> bool:
        count = 0
        for item in items(operand(frame)):
            frame[slot] = item
            count += _decided(body(frame))
        return count == 1

    return run


def _decided(value: Value) -> bool:
    if type(value) is bool:
        return value
    raise no_such_overload()


def _collected(operand: Run, items: _Items, slot: int, body: Run, condition: Run | None) -> Run:
    """`map`, `filter` and `transformList`."""

    def run(frame: Frame) -> list[Value]:
        result: list[Value] = []
        for item in items(operand(frame)):
            frame[slot] = item
            if condition is None or _decided(condition(frame)):
                result.append(body(frame))
        bounded(len(result))
        return result

    return run


def _transformed(operand: Run, items: _Items, slot: int, body: Run, condition: Run | None) -> Run:
    """`transformMap`: the same keys with other values."""

    def run(frame: Frame) -> dict[Value, Value]:
        result: dict[Value, Value] = {}
        for item in items(operand(frame)):
            frame[slot] = item
            if condition is None or _decided(condition(frame)):
                result[item[0]] = body(frame)
        return result

    return run


def _entries(operand: Run, items: _Items, slot: int, body: Run, condition: Run | None) -> Run:
    """`transformMapEntry`: the body gives the entries."""

    def run(frame: Frame) -> dict[Value, Value]:
        result: dict[Value, Value] = {}
        for item in items(operand(frame)):
            frame[slot] = item
            if condition is not None and not _decided(condition(frame)):
                continue
            entry = body(frame)
            if not isinstance(entry, dict):
                raise no_such_overload()
            for key, value in entry.items():
                if key in result:
                    raise EvaluationError(f"insert failed: key {key} already exists")
                result[key] = value
        return result

    return run


def _sorted(operand: Run, items: _Items, slot: int, body: Run, _condition: Run | None) -> Run:
    """`sortBy`: the elements in the order of what the body gives for them."""

    def run(frame: Frame) -> list[Value]:
        elements = list(items(operand(frame)))
        keys: list[Value] = []
        for element in elements:
            frame[slot] = element
            keys.append(body(frame))
        return sorted_by(elements, keys)

    return run


_MAKERS: Final[dict[str, Callable[[Run, _Items, int, Run, Run | None], Run]]] = {
    "all": _quantifier(settles=False),
    "exists": _quantifier(settles=True),
    "existsOne": _exists_one,
    "map": _collected,
    "filter": _collected,
    "transformList": _collected,
    "transformMap": _transformed,
    "transformMapEntry": _entries,
    "sortBy": _sorted,
}
