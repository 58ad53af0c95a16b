"""Compile an expression once, evaluate it often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubesched.foundation.cel.language.cel_errors import (
    CelCompileError,
    CelRuntimeError,
    EvaluationError,
)
from kubesched.foundation.cel.language.cel_values import Value
from kubesched.foundation.cel.language.checker import check
from kubesched.foundation.cel.language.closures import Run
from kubesched.foundation.cel.language.compiler import Compiler
from kubesched.foundation.cel.language.environment import Environment
from kubesched.foundation.cel.language.expression_types import Type
from kubesched.foundation.cel.language.parser import MAX_DEPTH, parse
from kubesched.foundation.cel.language.source import Source
from kubesched.foundation.cel.language.syntax import Identifier, SyntaxNode, children

__all__ = ["Program", "compile_expression"]


class Program:
    """A compiled expression. `output_type` is the static type of its value."""

    def __init__(
        self,
        expression: str,
        output_type: Type,
        run: Run,
        names: tuple[str, ...],
        size: int,
        mentioned: frozenset[str],
    ) -> None:
        self.expression = expression
        self._mentioned = mentioned
        self.output_type = output_type
        self._run = run
        self._names = names
        self._locals = [None] * (size - 1 - len(names))

    def mentions(self, name: str) -> bool:
        """Whether the expression refers to a variable."""
        return name in self._mentioned

    def evaluate(self, bindings: Mapping[str, Value]) -> Value:
        """The value of the expression for some values of its variables.

        Raises:
            CelRuntimeError: it has none, or costs too much to find out.
        """
        try:
            values = [bindings[name] for name in self._names]
        except KeyError as error:
            raise EvaluationError(f"no such attribute(s): {error.args[0]}") from None
        return self.run([0, *values, *self._locals])

    def evaluate_one(self, value: Value) -> Value:
        """Evaluate a program whose environment has exactly one variable."""
        return self.run([0, value, *self._locals])

    def evaluate_with_cost(self, value: Value) -> tuple[Value, int]:
        """The same, with the cost of the evaluation."""
        frame: list[Value] = [0, value, *self._locals]
        result = self.run(frame)
        cost = frame[0]
        assert isinstance(cost, int)
        return result, cost

    def run(self, frame: list[Value]) -> Value:
        """Run in a frame that is already laid out."""
        try:
            return self._run(frame)
        except RecursionError:
            raise CelRuntimeError("expression is nested too deeply to be evaluated") from None


def compile_expression(expression: str, environment: Environment) -> Program:
    """Parse, check and compile an expression.

    Raises:
        CelCompileError: it is not valid in this environment.
    """
    source = Source(expression)
    try:
        root = parse(source)
        output_type = check(source, root, environment)
        names = tuple(environment.variables)
        slots = {name: slot for slot, name in enumerate(names, start=1)}
        compiler = Compiler(environment, root, slots)
        run = compiler.charged(compiler.compile(root))
    except RecursionError:
        raise CelCompileError(
            f"ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}"
        ) from None
    mentioned = frozenset(_identifiers(root))
    return Program(expression, output_type, run, names, compiler.frame_size, mentioned)


def _identifiers(root: SyntaxNode) -> Iterator[str]:
    pending = [root]
    while pending:
        node = pending.pop()
        pending.extend(children(node))
        if isinstance(node, Identifier):
            yield node.name
