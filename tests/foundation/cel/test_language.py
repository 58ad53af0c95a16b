"""The language itself: literals, operators, logic with errors, loops, optionals, types.

Every case and its expectation come from the definition of the language.
"""

from __future__ import annotations

import math

import pytest

from kubesched.foundation.cel.language.cel_values import Duration, Timestamp, TypeValue, UInt
from tests.foundation.cel.support import evaluate, outcome

LITERALS = {
    "1": 1,
    "-9223372036854775808": -(2**63),
    "0x1F": 31,
    "-0xf": -15,
    "3u": UInt(3),
    "1.5e3": 1500.0,
    ".25": 0.25,
    "true": True,
    "null": None,
    "'a\\tb'": "a\tb",
    '"\\u00e9\\x41\\101"': "éAA",
    "r'a\\tb'": "a\\tb",
    "'''a\n'b'''": "a\n'b",
    "b'\\xff\\000a'": b"\xff\x00a",
    "b'é'": b"\xc3\xa9",
    "[1, 2,]": [1, 2],
    "{'a': 1, 'b': 2}": {"a": 1, "b": 2},
    "// a comment\n 1 + // another\n 2": 3,
    "9223372036854775808": "compile: invalid int literal",
    "18446744073709551616u": "compile: invalid uint literal",
    "'\\ud800'": "compile: invalid unicode code point",
    "let": "compile: reserved identifier: let",
}

ARITHMETIC = {
    "1 + 2 * 3 - 4": 3,
    "(1 + 2) * 3": 9,
    "7 / 2": 3,
    "-7 / 2": -3,
    "-7 % 3": -1,
    "7 % -3": 1,
    "7u / 2u": UInt(3),
    "1.0 / 0.0": math.inf,
    "-1.0 / 0.0": -math.inf,
    "'ab' + 'cd'": "abcd",
    "b'a' + b'b'": b"ab",
    "[1] + [2, 3]": [1, 2, 3],
    "-(-5)": 5,
    "--5": 5,
    "!!true": True,
    "---5": -5,
    "-number - -number": 0,
    "!-1": "compile: found no matching overload for '!_' applied to '(int)'",
    "9223372036854775807 + 1": "runtime: integer overflow",
    "-9223372036854775808 - 1": "runtime: integer overflow",
    "5000000000 * 5000000000": "runtime: integer overflow",
    "-9223372036854775808 / -1": "runtime: integer overflow",
    "0u - 1u": "runtime: unsigned integer overflow",
    "1 / 0": "runtime: division by zero",
    "1u % 0u": "runtime: modulus by zero",
    "1 + 1.0": "compile: found no matching overload for '_+_' applied to '(int, double)'",
    "dyn(1) + dyn(1.0)": "runtime: no such overload",
    "dyn(true) + 1": "runtime: no such overload: _+_",
    "-dyn('a')": "runtime: no such overload: -_",
    "!dyn(1)": "runtime: no such overload",
}

COMPARISONS = {
    "1 < 2 && 'a' < 'b' && b'a' < b'b' && false < true": True,
    "1 < 1.5 && 2u > 1 && 1.0 >= 1u": True,
    "'z' < 'é'": True,
    "dyn(1) == dyn(1.0)": True,
    "dyn(1) == dyn(1u)": True,
    "dyn(1) == dyn(true)": False,
    "dyn('1') == dyn(1)": False,
    "[1, 2] == [1, 2]": True,
    "dyn([1, 2]) == dyn([1.0, 2.0])": True,
    "{'a': 1} == {'a': 1}": True,
    "dyn({'a': 1}) == dyn({'b': 1})": False,
    "x == null": False,
    "null == null": True,
    "0.0 / 0.0 == 0.0 / 0.0": False,
    "0.0 / 0.0 != 0.0 / 0.0": True,
    "(0.0 / 0.0) < 1.0": "runtime: NaN values cannot be ordered",
    "dyn('a') < dyn(1)": "runtime: no such overload",
    "dyn([1]) < dyn([2])": "runtime: no such overload: _<_",
    "1 == 'a'": "compile: found no matching overload for '_==_' applied to '(int, string)'",
    "number == null": "compile: found no matching overload for '_==_' applied to "
    "'(int, null_type)'",
    "duration('1h') == duration('60m')": True,
    "timestamp('2024-01-01T01:00:00+01:00') == timestamp('2024-01-01T00:00:00Z')": True,
    "9223372036854775807 < 9223372036854775807.0": True,
}

LOGIC = {
    "true || 1 / 0 == 1": True,
    "1 / 0 == 1 || true": True,
    "false && 1 / 0 == 1": False,
    "1 / 0 == 1 && false": False,
    "1 / 0 == 1 || false": "runtime: division by zero",
    "1 / 0 == 1 || 1 % 0 == 1": "runtime: division by zero",
    "1 / 0 == 1 && true": "runtime: division by zero",
    "dyn('a') || true": True,
    "dyn('a') || false": "runtime: no such overload",
    "true ? 1 : 1 / 0": 1,
    "false ? 1 / 0 : 2": 2,
    "dyn(1) ? 1 : 2": "runtime: no such overload",
    "false ? 1 : true ? 2 : 3": 2,
    "true || false && false": True,
    "1 && true": "compile: expected type 'bool' but found 'int'",
    "true ? 1 : 'a'": "compile: found no matching overload for '_?_:_' applied to "
    "'(bool, int, string)'",
}

SELECTIONS = {
    "x.a.b[1]": "two",
    "x['a'].b[0]": 1,
    "held.one": 1,
    "held['two']": 2,
    "names[2]": "cy",
    "x.nope": "runtime: no such key: nope",
    "x.nope.deeper": "runtime: no such key: nope",
    "x.number.deeper": "runtime: no such key: deeper",
    "held.three": "runtime: no such key: three",
    "names[3]": "runtime: index out of bounds: 3",
    "names[-1]": "runtime: index out of bounds: -1",
    "dyn(names)['a']": "runtime: unsupported index type 'string' in list",
    "names['a']": "compile: found no matching overload for '_[_]' applied to "
    "'(list(string), string)'",
    "text.length": "compile: type 'string' does not support field selection",
    "has(x.a.b)": True,
    "has(x.a.c)": False,
    "has(x.number.deeper)": False,
    "has(x.nope.deeper)": "runtime: no such key: nope",
    "has(held.one) && !has(held.three)": True,
    "has(text)": "compile: invalid argument to has() macro",
    "'one' in held": True,
    "'ann' in names": True,
    "2 in [1, 2]": True,
    "dyn(2.0) in dyn([1, 2])": True,
    "dyn('a') in dyn(1)": "runtime: no such overload",
    "{1: 'a'}[1]": "a",
    "{true: 'a'}[true]": "a",
    "dyn({1: 'a'})[true]": "runtime: no such key: true",
    "dyn({1: 'a'})[1.0]": "a",
    "{'a': 1, 'a': 2}": {"a": 2},
    "{dyn([1]): 2}": "runtime: unsupported key type",
    "nothing": "compile: undeclared reference to 'nothing' (in container '')",
    "nothing.at.all": "compile: undeclared reference to 'nothing' (in container '')",
    "Message{field: 1}": "compile: undeclared reference to 'Message' (in container '')",
}

LOOPS = {
    "[1, 2, 3].all(n, n > 0)": True,
    "[].all(n, n > 0)": True,
    "[1, 2, 3].exists(n, n > 2)": True,
    "[1, 2, 3].exists_one(n, n > 2)": True,
    "[1, 2, 3].existsOne(n, n > 1)": False,
    "[1, 2, 3].map(n, n * 2)": [2, 4, 6],
    "[1, 2, 3].map(n, n > 1, n * 2)": [4, 6],
    "[1, 2, 3].filter(n, n != 2)": [1, 3],
    "held.all(k, held[k] > 0)": True,
    "held.map(k, k)": ["one", "two"],
    "[0, 1].all(n, 2 / n > 3)": False,
    "[0, 1].exists(n, 2 / n == 2)": True,
    "[0, 1].all(n, 2 / n > 1)": "runtime: division by zero",
    "[0, 1].map(n, 2 / n)": "runtime: division by zero",
    "[[1, 2], [3]].all(l, l.all(n, n > 0))": True,
    "[1, 2].all(n, [n].all(n, n > 5) || n < 3)": True,
    "['a', 'b'].all(i, v, i < 2 && v != 'c')": True,
    "held.exists(k, v, k == 'two' && v == 2)": True,
    "['a', 'b'].transformList(i, v, string(i) + v)": ["0a", "1b"],
    "['a', 'b'].transformList(i, v, i > 0, v)": ["b"],
    "held.transformMap(k, v, v * 10)": {"one": 10, "two": 20},
    "held.transformMap(k, v, v > 1, v * 10)": {"two": 20},
    "['x', 'y'].transformMapEntry(i, v, {v: i})": {"x": 0, "y": 1},
    "['x', 'x'].transformMapEntry(i, v, {v: i})": "runtime: insert failed: key x already exists",
    "names.sortBy(n, -size(n))": ["ann", "bob", "cy"],
    "dyn(5).all(n, true)": "runtime: got 'int', expected iterable type",
    "5.all(n, true)": "compile: expression of type 'int' cannot be range of a comprehension "
    "(must be list, map, or dynamic)",
    "[1].all(n, n)": "compile: expected type 'bool' but found 'int'",
    "[1].all(1, true)": "compile: argument must be a simple name",
    "[1].map(n.m, true)": "compile: argument is not an identifier",
    "[1].filter(1, true)": "compile: argument is not an identifier",
    "[1].transformList(i, i, i)": "compile: duplicate variable name: i",
    "[1].all(n.m, true)": "compile: argument must be a simple name",
}

OPTIONALS = {
    "optional.of(1).value()": 1,
    "optional.none().hasValue()": False,
    "optional.ofNonZeroValue(0).hasValue()": False,
    "optional.ofNonZeroValue('a').hasValue()": True,
    "x.?a.?b[?0].value()": 1,
    "x.?nope.?b.hasValue()": False,
    "x.?nope.b.hasValue()": False,
    "x.?a.b.hasValue()": True,
    "has(x.?nope.b)": False,
    "names[?9].orValue('none')": "none",
    "held[?'one'].orValue(0)": 1,
    "optional.none().or(optional.of(2)).value()": 2,
    "optional.of(1).orValue(1 / 0)": 1,
    "optional.of(1).or(optional.of(1 / 0)).value()": 1,
    "optional.of(2).optMap(n, n * 2).value()": 4,
    "optional.none().optMap(n, n + 1).hasValue()": False,
    "optional.of(2).optFlatMap(n, optional.of(n + 1)).value()": 3,
    "[1, ?optional.none(), ?optional.of(3)]": [1, 3],
    "{'a': 1, ?'b': optional.none(), ?'c': optional.of(3)}": {"a": 1, "c": 3},
    "optional.of(1) == optional.of(1)": True,
    "optional.none() == optional.none()": True,
    "optional.of(1) == optional.none()": False,
    "optional.none().value()": "runtime: optional.none() dereference",
    "[?1]": "compile: expected type 'optional_type(int)' but found 'int'",
    "[optional.of(1), optional.none()].unwrapOpt()": [1],
    "[1, 2].first().value()": 1,
    "[1, 2].last().value()": 2,
}

BINDINGS = {
    "cel.bind(a, 2, a * a)": 4,
    "cel.bind(a, 2, cel.bind(b, a + 1, a * b))": 6,
    "cel.bind(a, 1 / 0, true)": True,
    "cel.bind(a, 1 / 0, a)": "runtime: division by zero",
    "cel.bind(number, 'shadows', number + '!')": "shadows!",
    "[1, 2].map(n, cel.bind(d, n * 2, d + d))": [4, 8],
    "cel.bind(1, 2, 3)": "compile: cel.bind() variable names must be simple identifiers",
}

TYPES = {
    "type(1)": TypeValue("int"),
    "type(1) == int": True,
    "type('a') == string && type(1.0) == double && type(null) == null_type": True,
    "type([1]) == list && type({1: 2}) == map && type(type(1)) == type": True,
    "type(duration('1s')) == google.protobuf.Duration": True,
    "int('12') + int(3.9) + int(4u)": 19,
    "int('a')": "runtime: type conversion error from 'string' to 'int'",
    "int(1e99)": "runtime: integer overflow",
    "uint(-1)": "runtime: unsigned integer overflow",
    "uint('3')": UInt(3),
    "double('1.5') + double(1)": 2.5,
    "string(1) + string(1.5) + string(true) + string(2u)": "11.5true2",
    "string(1e100)": "1e+100",
    "string(b'abc')": "abc",
    "string(b'\\xff')": "runtime: invalid UTF-8 in bytes, cannot convert to string",
    "bytes('é')": b"\xc3\xa9",
    "bool('true') && !bool('f')": True,
    "int(timestamp('1970-01-01T00:01:00Z'))": 60,
    "dyn([1, 'a'])": "compile: expected type 'int' but found 'string'",
    "[1, 2.0]": "compile: expected type 'int' but found 'double'",
    "{'a': 1, 2: 3}": "compile: expected type 'string' but found 'int'",
    "[dyn(1), dyn('a')]": [1, "a"],
}

TIMES = {
    "duration('1h30m') - duration('90m')": Duration(0),
    "duration('-1.5s')": Duration(-1_500_000_000),
    "string(duration('1.5s'))": "1.5s",
    "duration('1h').getMinutes()": 60,
    "duration('1.5s').getMilliseconds()": 1500,
    "timestamp('2024-02-29T12:30:45.5Z')": Timestamp(1_709_209_845_500_000_000),
    "timestamp('2024-02-29T12:30:45Z') + duration('24h')": Timestamp(1_709_296_245 * 10**9),
    "string(timestamp('2024-02-29T12:30:45.500Z'))": "2024-02-29T12:30:45.5Z",
    "timestamp('2024-02-29T12:30:45Z').getFullYear()": 2024,
    "timestamp('2024-02-29T12:30:45Z').getMonth()": 1,
    "timestamp('2024-02-29T12:30:45Z').getDate()": 29,
    "timestamp('2024-02-29T12:30:45Z').getDayOfMonth()": 28,
    "timestamp('2024-02-29T12:30:45Z').getDayOfWeek()": 4,
    "timestamp('2024-02-29T12:30:45Z').getDayOfYear()": 59,
    "timestamp('2024-02-29T12:30:45Z').getHours('+02:00')": 14,
    "timestamp('2024-02-29T23:30:45Z').getDate('Asia/Tokyo')": 1,
    "timestamp('2024-02-29T12:30:45Z').getHours('No/Where')": "runtime: unknown time zone No/Where",
    "timestamp('9999-12-31T23:59:59Z') + duration('1s')": "runtime: timestamp overflow",
    "timestamp('yesterday')": "compile: invalid timestamp argument",
    "duration('soon')": "compile: invalid duration argument",
    "duration(text)": "runtime: type conversion error from 'string' to 'google.protobuf.Duration'",
}

TABLES = {
    "literals": LITERALS,
    "arithmetic": ARITHMETIC,
    "comparisons": COMPARISONS,
    "logic": LOGIC,
    "selections": SELECTIONS,
    "loops": LOOPS,
    "optionals": OPTIONALS,
    "bindings": BINDINGS,
    "types": TYPES,
    "times": TIMES,
}
CASES = [
    pytest.param(expression, want, id=f"{name}: {expression}")
    for name, table in TABLES.items()
    for expression, want in table.items()
]


@pytest.mark.parametrize(("expression", "want"), CASES)
def test_expression(expression: str, want: object) -> None:
    got = outcome(expression)
    assert got == want
    assert type(got) is type(want)


def test_every_problem_is_named() -> None:
    got = outcome("nothing + nowhere")
    assert got == "compile: undeclared reference to 'nothing' (in container '')"
    with pytest.raises(Exception, match="nowhere"):
        evaluate("nothing + nowhere")


def test_the_place_of_a_problem() -> None:
    with pytest.raises(Exception, match=r"<input>:2:5: undeclared") as caught:
        evaluate("1 +\n    nothing")
    assert str(caught.value).endswith("\n |     nothing\n | ....^")
