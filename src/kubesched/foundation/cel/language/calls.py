"""Calls of functions and methods as closures.

If the types of all arguments are known at compile time, the matching overload is called directly.
Otherwise the values of the arguments choose among the possible overloads at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kubesched.foundation.cel.language.cel_errors import (
    CelRuntimeError,
    CostLimitError,
    EvaluationError,
    no_such_overload,
)
from kubesched.foundation.cel.language.cel_values import NONE, OptionalValue, Value, type_name
from kubesched.foundation.cel.language.closures import CompiledNode, Frame, NodeCompiler, Run
from kubesched.foundation.cel.language.expression_types import Type
from kubesched.foundation.cel.language.syntax import Call, Literal

if TYPE_CHECKING:
    from kubesched.foundation.cel.language.declarations import Overload

__all__ = ["compile_call", "is_constant_call"]

_LAZY: Final = frozenset(("or", "orValue"))


def compile_call(compiler: NodeCompiler, node: Call) -> CompiledNode:
    """Compile a call."""
    if node.target is not None and node.function in _LAZY:
        return _alternative(compiler, node)
    codes = [compiler.compile(operand) for operand in node.operands]
    cost = sum(code.cost for code in codes)
    runs = tuple(code.run for code in codes)
    call = node.overloads[0].call if _is_certain(node) else _dispatch(node.overloads)
    if (constant := _folded(node, call)) is not None:
        return constant
    if not compiler.metered or not any(callable(each.cost) for each in node.overloads):
        fixed = max((each.cost for each in node.overloads if isinstance(each.cost, int)), default=1)
        return CompiledNode(_plain(call, runs), cost + fixed)
    return CompiledNode(_metered(compiler, node.overloads, call, runs), cost)


def _is_certain(node: Call) -> bool:
    """Whether the static types determine the overload, and the arguments match it.

    They do not if an argument is dynamic, or null, which is assignable to many types.
    """
    return len(node.overloads) == 1 and all(
        wanted.is_parameter or wanted.name in ("dyn", operand.type.name)
        for operand, wanted in zip(node.operands, node.overloads[0].parameters, strict=True)
    )


def _folded(node: Call, call: Callable[..., Value]) -> CompiledNode | None:
    """Evaluate a call with constant arguments at compile time; a failing call stays a call."""
    if not is_constant_call(node):
        return None
    arguments = tuple(each.value for each in node.operands if isinstance(each, Literal))
    try:
        result = call(*arguments)
    except CelRuntimeError:
        return None
    costs = [cost_of(each, arguments, result) for each in node.overloads]
    return CompiledNode(lambda _frame: result, max(costs))


def is_constant_call(node: Call) -> bool:
    """Whether all arguments of a call are constants."""
    return bool(node.operands) and all(isinstance(each, Literal) for each in node.operands)


def cost_of(overload: Overload, arguments: tuple[Value, ...], result: Value) -> int:
    """Return the cost of a call with these arguments."""
    cost = overload.cost
    return cost if isinstance(cost, int) else cost(arguments, result)


def _plain(call: Callable[..., Value], runs: tuple[Run, ...]) -> Run:
    match runs:
        case ():
            return lambda _frame: call()
        case (only,):
            return lambda frame: call(only(frame))
        case (first, second):
            return lambda frame: call(first(frame), second(frame))
        case _:
            return lambda frame: call(*[run(frame) for run in runs])


def _metered(
    compiler: NodeCompiler,
    overloads: tuple[Overload, ...],
    call: Callable[..., Value],
    runs: tuple[Run, ...],
) -> Run:
    """Compile a call whose cost depends on its arguments or its result."""
    limit = compiler.limit

    def run(frame: Frame) -> Value:
        arguments = tuple([each(frame) for each in runs])
        result = call(*arguments)
        frame[0] += max([cost_of(each, arguments, result) for each in overloads])
        if frame[0] > limit:
            raise CostLimitError
        return result

    return run


def _alternative(compiler: NodeCompiler, node: Call) -> CompiledNode:
    """Compile `x.or(y)` and `x.orValue(y)`: y is only evaluated if x is absent."""
    assert node.target is not None
    target, cost = compiler.compile(node.target)
    otherwise = compiler.charged(compiler.compile(node.arguments[0]))
    unwrap = node.function == "orValue"

    def run(frame: Frame) -> Value:
        value = target(frame)
        if not isinstance(value, OptionalValue):
            raise no_such_overload()
        if value is NONE:
            return otherwise(frame)
        return value.value if unwrap else value

    return CompiledNode(run, cost + 1)


def _dispatch(overloads: tuple[Overload, ...]) -> Callable[..., Value]:
    candidates = [
        (each.call, tuple(_check_of(wanted) for wanted in each.parameters)) for each in overloads
    ]
    function, names_types = overloads[0].function, overloads[0].names_types

    def call(*arguments: Value) -> Value:
        for candidate, checks in candidates:
            if all(check(value) for check, value in zip(checks, arguments, strict=True)):
                return candidate(*arguments)
        if not names_types:
            raise no_such_overload()
        given = ", ".join(map(type_name, arguments))
        raise EvaluationError(f"no such overload: {function}({given})")

    return call


def _check_of(wanted: Type) -> Callable[[Value], bool]:
    """Return a function that checks whether a value has a type."""
    if wanted.is_parameter or wanted.is_dynamic:
        return lambda _value: True
    name = wanted.name
    return lambda value: type_name(value) == name
