"""Binary operators as closures, with fast paths for common selectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kubesched.foundation.cel.language.cel_errors import CostLimitError
from kubesched.foundation.cel.language.closures import CompiledNode, Frame, NodeCompiler, Run
from kubesched.foundation.cel.language.declarations import size_or_one
from kubesched.foundation.cel.language.operations import ARITHMETIC, ORDER, equal, is_in, not_equal
from kubesched.foundation.cel.language.syntax import Binary, ListLiteral, Literal, SyntaxNode

if TYPE_CHECKING:
    from kubesched.foundation.cel.language.cel_values import Value

__all__ = ["compile_binary"]

_TRAVERSAL: Final = 0.1
_SCALARS: Final = frozenset((str, int, bool))
_SIZED: Final = frozenset(("string", "bytes", "list", "map", "dyn", "any"))


def compile_binary(compiler: NodeCompiler, node: Binary) -> CompiledNode:
    """Compile an arithmetic operator, a comparison or `in`."""
    left, left_cost = compiler.compile(node.left)
    right, right_cost = compiler.compile(node.right)
    cost = left_cost + right_cost
    if node.operator == "in":
        return _membership(compiler, node, left, right, cost)
    if node.operator in ("==", "!=") and (short := _equal_to_constant(node, left)):
        run, extra = short
        return CompiledNode(run, cost + extra)
    calculate = _OPERATIONS[node.operator]
    if compiler.metered and _may_be_large(node):
        return CompiledNode(_metered(compiler, node.operator, calculate, left, right), cost)
    return CompiledNode(lambda frame: calculate(left(frame), right(frame)), cost + 1)


_OPERATIONS: Final[dict[str, Callable[[Value, Value], Value]]] = {
    **ARITHMETIC,
    **ORDER,
    "==": equal,
    "!=": not_equal,
}


def _equal_to_constant(node: Binary, left: Run) -> tuple[Run, int] | None:
    """Compile a comparison with a constant; its cost is limited by the constant's length."""
    if not isinstance(node.right, Literal) or type(node.right.value) not in _SCALARS:
        return None
    constant = node.right.value
    cls = type(constant)
    extra = math.ceil(len(constant) * _TRAVERSAL) if cls is str else 1
    otherwise = _OPERATIONS[node.operator]
    if node.operator == "==":

        def is_equal(frame: Frame) -> Value:
            value = left(frame)
            return value == constant if type(value) is cls else otherwise(value, constant)

        return is_equal, extra

    def differs(frame: Frame) -> Value:
        value = left(frame)
        return value != constant if type(value) is cls else otherwise(value, constant)

    return differs, extra


def _may_be_large(node: Binary) -> bool:
    return node.left.type.name in _SIZED or node.right.type.name in _SIZED


def _metered(
    compiler: NodeCompiler,
    operator: str,
    calculate: Callable[[Value, Value], Value],
    left: Run,
    right: Run,
) -> Run:
    """Compile an operator whose cost depends on the size of its operands."""
    limit = compiler.limit
    sum_counts = operator == "+"

    def run(frame: Frame) -> Value:
        first, second = left(frame), right(frame)
        if sum_counts:
            if type(first) in (str, bytes):
                frame[0] += math.ceil((len(first) + size_or_one(second)) * _TRAVERSAL)
            else:
                frame[0] += 1
        else:
            frame[0] += math.ceil(min(size_or_one(first), size_or_one(second)) * _TRAVERSAL)
        if frame[0] > limit:
            raise CostLimitError
        return calculate(first, second)

    return run


def _membership(
    compiler: NodeCompiler, node: Binary, left: Run, right: Run, cost: int
) -> CompiledNode:
    if (texts := _literal_texts(node.right)) is not None:

        def is_listed(frame: Frame) -> bool:
            value = left(frame)
            return type(value) is str and value in texts

        return CompiledNode(is_listed, cost)
    if not compiler.metered or node.right.type.name == "map":
        return CompiledNode(lambda frame: is_in(left(frame), right(frame)), cost + 1)
    limit = compiler.limit

    def run(frame: Frame) -> bool:
        value, container = left(frame), right(frame)
        frame[0] += len(container) if isinstance(container, list) else 1
        if frame[0] > limit:
            raise CostLimitError
        return is_in(value, container)

    return CompiledNode(run, cost)


def _literal_texts(node: SyntaxNode) -> frozenset[str] | None:
    """Return the strings if the node is a literal list of strings, otherwise None."""
    if not isinstance(node, ListLiteral) or any(node.optional) or not node.elements:
        return None
    texts = [each.value for each in node.elements if isinstance(each, Literal)]
    if len(texts) == len(node.elements) and all(type(text) is str for text in texts):
        return frozenset(texts)
    return None
