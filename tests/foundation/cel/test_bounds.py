"""Any expression yields a value or a CelError, within bounds of steps and memory."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.dynamic_resources import DeviceAttribute, DeviceCapacity
from kubesched.foundation.cel import (
    CelCompileError,
    CelError,
    CelRuntimeError,
    CompiledSelector,
    DeviceInput,
    compile_expression,
)
from tests.foundation.cel.support import ENVIRONMENT, evaluate, outcome

DEVICE = DeviceInput(
    "d.example.com",
    {
        "model": DeviceAttribute(string_value="A100"),
        "numa": DeviceAttribute(int_value=3),
        "version": DeviceAttribute(version_value="1.2.3"),
        "ecc": DeviceAttribute(bool_value=True),
    },
    {"memory": DeviceCapacity("40Gi")},
    allow_multiple_allocations=True,
)
WORDS = [
    "device", ".", "attributes", "capacity", "driver", '"d.example.com"', "[", "]", "(", ")", "{",
    "}", ",", ":", "?", "!", "-", "+", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||", "in", "x",
    "1", "0", "1.5", "3u", "true", "null", "'a'", "b'c'", "has", "all", "exists", "map", "filter",
    "size", "matches", "quantity", "semver", "cel.bind", "optMap", "orValue", ".?", "[?", "string",
    "int", "dyn", "type", "timestamp", "duration", "format", "join", "lists.range", "model", "//",
    "version", "memory", "compareTo", "'''", "\\", "9223372036854775807", "'%s'", "sum", "replace",
]  # fmt: skip

ATOMS = st.sampled_from(
    [
        "device.attributes['d.example.com'].model",
        "device.attributes['d.example.com'].numa",
        "device.attributes['d.example.com'].version",
        "device.attributes['d.example.com'].nope",
        "device.attributes['d.example.com']",
        "device.attributes",
        "device.capacity['d.example.com'].memory",
        "device.driver",
        "device",
        "1",
        "0",
        "-9223372036854775808",
        "2.5",
        "4u",
        "'a'",
        "b'a'",
        "true",
        "null",
        "[]",
        "{}",
        "[1, 2]",
        "['a']",
        "quantity('1Gi')",
        "semver('1.0.0')",
        "optional.none()",
        "duration('1h')",
        "timestamp('2024-01-01T00:00:00Z')",
        "ip('10.0.0.1')",
        "lists.range(1000)",
    ]
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = ["==", "!=", "<", "<=", "+", "-", "*", "/", "%", "&&", "||", "in"]
    methods = [
        "size", "sum", "min", "isSorted", "sort", "reverse", "distinct", "flatten", "hasValue",
        "value", "major", "asInteger", "trim", "lowerAscii", "getFullYear", "first", "join",
    ]  # fmt: skip
    two = [
        "compareTo", "isLessThan", "add", "contains", "matches", "split", "indexOf", "includes",
        "orValue", "or", "format", "charAt", "findAll", "find", "containsIP",
    ]  # fmt: skip
    loops = ["all", "exists", "exists_one", "map", "filter", "sortBy", "optMap"]
    calls = ["size", "string", "int", "double", "dyn", "type", "bool", "bytes", "optional.of"]
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(operators), inner),
        st.builds("{}.{}()".format, inner, st.sampled_from(methods)),
        st.builds("{}.{}({})".format, inner, st.sampled_from(two), inner),
        st.builds("{}.{}(v, {})".format, inner, st.sampled_from(loops), inner),
        st.builds("{}.{}(v, v == {})".format, inner, st.sampled_from(loops), inner),
        st.builds("{}({})".format, st.sampled_from(calls), inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("{}[?{}]".format, inner, inner),
        st.builds("cel.bind(b, {}, [b, b, {}])".format, inner, inner),
        st.builds("{}.replace({}, {})".format, inner, inner, inner),
        st.builds("dyn({})".format, inner),
        st.builds("!{}".format, inner),
        st.builds("-{}".format, inner),
    )


def _answers(expression: str) -> None:
    with contextlib.suppress(CelError):
        assert CompiledSelector.compile(expression).selects(DEVICE) in (True, False)


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    _answers(text)


@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_any_words(text: str) -> None:
    _answers(text)


@given(st.recursive(ATOMS, _grown, max_leaves=8))
def test_any_expression(text: str) -> None:
    _answers(text)


@given(
    st.text(alphabet="ab(){}[]*+?|^$.\\d1,-", max_size=30), st.text(alphabet="ab1", max_size=200)
)
def test_any_pattern(pattern: str, text: str) -> None:
    with contextlib.suppress(CelError):
        assert evaluate(f"'{text}'.matches(r'''{pattern} ''' + '')") in (True, False)


DEEP = {
    "parentheses": "(" * 5000 + "1" + ")" * 5000,
    "lists": "[" * 5000 + "]" * 5000,
    "calls": "size(" * 3000 + "'a'" + ")" * 3000,
    "a chain of sums": "+".join(["1"] * 3000),
    "a chain of selections": "x" + ".a" * 3000,
    "a chain of indices": "x" + "[0]" * 3000,
    "conditions": "true ? 1 : " * 3000 + "1",
    "nested loops": "[1].all(a, " * 300 + "true" + ")" * 300,
}


@pytest.mark.parametrize("expression", DEEP.values(), ids=DEEP)
def test_expressions_nested_too_deeply_are_refused(expression: str) -> None:
    with pytest.raises(CelCompileError, match="recursion limit exceeded: 250"):
        evaluate(expression)


def test_long_chains_of_terms_are_not_deep() -> None:
    assert evaluate(" && ".join(["true"] * 3000)) is True


def test_nesting_that_is_allowed_works() -> None:
    assert evaluate("(" * 200 + "1" + ")" * 200) == 1
    assert evaluate("!" * 1000 + "true") is True
    assert evaluate("+".join(["1"] * 200)) == 200


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(CelCompileError, match="size exceeds limit"):
        evaluate("'" + "a" * 100_000 + "'")


def test_many_problems_are_summarized() -> None:
    with pytest.raises(CelCompileError) as caught:
        evaluate(" || ".join(["a"] * 15_000))
    assert str(caught.value).endswith("14900 more errors were truncated")
    assert len(str(caught.value)) < 100_000


def test_long_expressions_are_checked_in_time() -> None:
    assert evaluate(" && ".join(["x.number == 7"] * 5_000)) is True


STOPPED = "runtime: operation cancelled: actual cost limit exceeded"
BOMBS = {
    "a string that doubles": "'a'" + "".join(f".replace('{'a'}', 'aaaaaaaaaa')" for _ in range(30)),
    "a string that doubles by name": "".join(
        f"cel.bind(s{n + 1}, s{n} + s{n}, " if n else "cel.bind(s1, 'aaaaaaaaaa', "
        for n in range(60)
    )
    + "size(s60)"
    + ")" * 60,
    "a list that doubles by name": "".join(
        f"cel.bind(s{n + 1}, s{n} + s{n}, " if n else "cel.bind(s1, [1], " for n in range(60)
    )
    + "size(s60)"
    + ")" * 60,
    "loops in loops": "lists.range(1000).all(a, lists.range(1000).all(b, "
    "lists.range(1000).all(c, true)))",
    "a loop over a made list": "lists.range(900).map(a, lists.range(900)).flatten().map(b, "
    "lists.range(900)).size()",
    "joining": "lists.range(3000).map(a, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')"
    ".join('b').replace('a', 'cccccccccccccccccccccccccccccccccccccccccccccccccccccc').size()",
}


@pytest.mark.parametrize("expression", BOMBS.values(), ids=BOMBS)
def test_evaluation_stops_at_the_cost_limit(expression: str) -> None:
    assert outcome(expression) == STOPPED


def test_a_precision_is_bounded() -> None:
    assert len(evaluate("'%.9999f'.format([1.0])")) < 2000
    with pytest.raises(CelCompileError):
        evaluate("'%.99999999f'.format([1.0])")


def test_a_missing_variable_is_an_error() -> None:
    with pytest.raises(CelRuntimeError, match=r"no such attribute\(s\): x"):
        compile_expression("x", ENVIRONMENT).evaluate({})
