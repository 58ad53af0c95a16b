"""Label selectors: truth tables, error texts and the grammar of query strings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import LabelSelector, LabelSelectorRequirement
from kubesched.api.labels import EVERYTHING, NOTHING, Requirement, Selector
from kubesched.api.merged_requirements import MergedRequirements
from kubesched.api.validation import is_label_key, label_key_errors
from kubesched.errors import SelectorError
from tests.counted_calls import count_calls

NAME_SYNTAX = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_SYNTAX = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
    "'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

TRUTH = {
    "in, present": ("in", ("x", "y"), "x", True),
    "in, another value": ("in", ("x", "y"), "z", False),
    "in, absent": ("in", ("x",), None, False),
    "in with an empty value, absent": ("in", ("",), None, False),
    "equality": ("=", ("x",), "x", True),
    "notin, absent": ("notin", ("x",), None, True),
    "notin, listed": ("notin", ("x",), "x", False),
    "notin, another value": ("notin", ("x",), "y", True),
    "inequality, absent": ("!=", ("x",), None, True),
    "exists with an empty value": ("exists", (), "", True),
    "exists, absent": ("exists", (), None, False),
    "does not exist, absent": ("!", (), None, True),
    "does not exist, present": ("!", (), "", False),
    "greater, leading zeros": ("gt", ("0206",), "0300", True),
    "greater is strict": ("gt", ("5",), "5", False),
    "greater, not a number": ("gt", ("5",), "abc", False),
    "greater, absent": ("gt", ("5",), None, False),
    "greater, beyond 64 bits": ("gt", ("5",), "9223372036854775808", False),
    "less": ("lt", ("5",), "4", True),
    "less is strict": ("lt", ("5",), "5", False),
}


@pytest.mark.parametrize(("operator", "values", "label", "want"), TRUTH.values(), ids=TRUTH)
def test_requirement(operator: str, values: tuple[str, ...], label: str | None, want: bool) -> None:
    labels = {"other": "x"} if label is None else {"k": label}
    requirement = Requirement("k", operator, values)
    assert requirement.matches(labels) is want
    assert Selector([requirement]).matches(labels) is want


WRONG = {
    "in without values": (
        ("k", "in", ()),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
    ),
    "exists with values": (
        ("k", "exists", ("x",)),
        'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
    ),
    "greater with two values": (
        ("k", "gt", ("1", "2")),
        "values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, "
        "exactly one value is required",
    ),
    "greater than a word": (
        ("k", "gt", ("x",)),
        "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    ),
    "greater than a negative number, which no label can be": (
        ("k", "gt", ("-5",)),
        f'values[0][k]: Invalid value: "-5": {VALUE_SYNTAX}',
    ),
    "a value that is no label": (
        ("service", "in", ("{{.bad-value.}}",)),
        f'values[0][service]: Invalid value: "{{{{.bad-value.}}}}": {VALUE_SYNTAX}',
    ),
    "a value that is too long": (
        ("k", "=", ("x" * 64,)),
        f'values[0][k]: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
    ),
    "a key with a space": (
        ("invalid key", "exists", ()),
        f'key: Invalid value: "invalid key": name part {NAME_SYNTAX}',
    ),
    "an empty key": (
        ("", "exists", ()),
        f'key: Invalid value: "": name part must be non-empty; name part {NAME_SYNTAX}',
    ),
    "several complaints": (
        ("a b", "in", ()),
        f'[key: Invalid value: "a b": name part {NAME_SYNTAX}, '
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty]",
    ),
}


@pytest.mark.parametrize(("parts", "want"), WRONG.values(), ids=WRONG)
def test_invalid_requirements(parts: tuple[str, str, tuple[str, ...]], want: str) -> None:
    with pytest.raises(SelectorError) as error:
        Requirement.checked(*parts)
    assert str(error.value) == want


def test_errors_are_reported_under_a_path() -> None:
    errors = Requirement("a b", "exists", ("x",)).errors("terms[0]")
    assert [error.split(":")[0] for error in errors] == ["terms[0].key", "terms[0].values"]


def selector(
    labels: dict[str, str] | None = None, *expressions: tuple[str, str, tuple[str, ...]]
) -> LabelSelector:
    return LabelSelector(
        match_labels=labels or {},
        match_expressions=tuple(
            LabelSelectorRequirement(key=key, operator=operator, values=values)
            for key, operator, values in expressions
        ),
    )


def test_the_three_kinds_of_selectors() -> None:
    nothing = Selector.from_label_selector(None)
    everything = Selector.from_label_selector(LabelSelector())
    some = Selector.from_label_selector(selector({"a": "1"}))
    assert (nothing, everything) == (NOTHING, EVERYTHING)
    assert [each.matches({}) for each in (nothing, everything, some)] == [False, True, False]
    assert [each.is_empty for each in (nothing, everything, some)] == [False, True, False]
    assert [each.is_nothing for each in (nothing, everything, some)] == [True, False, False]


def test_labels_and_expressions_are_anded() -> None:
    compiled = Selector.from_label_selector(
        selector({"a": "1"}, ("b", "In", ("x", "y")), ("c", "DoesNotExist", ()))
    )
    assert compiled.matches({"a": "1", "b": "y"})
    assert not compiled.matches({"a": "1", "b": "y", "c": ""})
    assert not compiled.matches({"a": "1"})
    assert str(compiled) == "a=1,b in (x,y),!c"


@pytest.mark.parametrize("operator", ["Gt", "in", "", "X"])
def test_label_selectors_have_four_operators(operator: str) -> None:
    with pytest.raises(SelectorError) as error:
        Selector.from_label_selector(selector(None, ("k", operator, ("1",))))
    assert str(error.value) == f'"{operator}" is not a valid label selector operator'


def test_selectors_are_equal_by_content() -> None:
    one = Selector.from_label_selector(selector({"a": "1", "b": "2"}))
    two = Selector.from_label_selector(selector({"b": "2", "a": "1"}))
    assert one == two
    assert hash(one) == hash(two)
    assert one != EVERYTHING
    assert NOTHING != EVERYTHING
    assert len({one, two, Selector.from_map({"a": "1", "b": "2"})}) == 1


def test_adding_requirements() -> None:
    more = Requirement("b", "exists")
    assert NOTHING.add(more) is NOTHING
    assert EVERYTHING.add(more).matches({"b": ""})
    assert not Selector.from_map({"a": "1"}).add(more).matches({"a": "1"})


def test_a_map_is_not_validated() -> None:
    assert Selector.from_map({"not a key": "not a value!"}).matches({"not a key": "not a value!"})
    assert Selector.from_map({}) is EVERYTHING


QUERIES = {
    "": "",
    "x": "x",
    "!x": "!x",
    "a=b": "a=b",
    "a==b": "a==b",
    "a!=b": "a!=b",
    "a = b , c": "a=b,c",
    "a=": "a=",
    "a=,b": "a=,b",
    "app in (x,y)": "app in (x,y)",
    "app notin (y,x,y)": "app notin (x,y)",
    "a in (,)": "a in ()",
    "a in (x,)": "a in (,x)",
    "size>3": "size>3",
    "size<3,!x": "size<3,!x",
    "in=notin": "in=notin",
    "example.com/a=b": "example.com/a=b",
    " \t x \n": "x",
}


@pytest.mark.parametrize("text", QUERIES)
def test_query_strings(text: str) -> None:
    assert str(Selector.parse(text)) == QUERIES[text]


BAD_QUERIES = {
    "a,": "found '', expected: identifier after ','",
    "=b": "found '=', expected: !, identifier, or 'end of string'",
    ",a": "found ',', expected: !, identifier, or 'end of string'",
    "a b": "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    "a=b c": "found 'c', expected: ',' or 'end of string'",
    "!a=b": "found '=', expected: ',' or 'end of string'",
    "!": "unable to parse requirement: found '', expected: identifier",
    "a in x": "unable to parse requirement: found 'x' expected: '('",
    "a in (x": "unable to parse requirement: found '', expected: ',' or ')'",
    "a in (": "unable to parse requirement: found '', expected: ',', ')' or identifier",
    "a=(": "unable to parse requirement: found '(', expected: identifier",
    "a in ()": "unable to parse requirement: values: Invalid value: []: "
    "for 'in', 'notin' operators, values set can't be empty",
    "a_=b": f'unable to parse requirement: <nil>: Invalid value: "a_": name part {NAME_SYNTAX}',
    "a=b_": f'unable to parse requirement: values[0][a]: Invalid value: "b_": {VALUE_SYNTAX}',
}


@pytest.mark.parametrize(("text", "want"), BAD_QUERIES.items(), ids=BAD_QUERIES)
def test_invalid_query_strings(text: str, want: str) -> None:
    with pytest.raises(SelectorError) as error:
        Selector.parse(text)
    assert str(error.value) == want


KEYS = st.sampled_from(["a", "b", "c.d/e"])
VALUES = st.sampled_from(["", "x", "y", "7"])
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(["=", "!="]), st.tuples(VALUES)),
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from(["in", "notin"]),
        st.lists(VALUES, min_size=1, unique=True).map(lambda values: tuple(sorted(values))),
    ),
    st.builds(Requirement, KEYS, st.sampled_from(["exists", "!"])),
)
LABELS = st.dictionaries(KEYS, VALUES)


@given(st.lists(REQUIREMENTS), LABELS)
def test_a_selector_is_the_conjunction_of_its_requirements(
    requirements: list[Requirement], labels: dict[str, str]
) -> None:
    want = all(requirement.matches(labels) for requirement in requirements)
    assert Selector(requirements).matches(labels) == want


# A list of one empty value prints as an empty list, which is invalid, as in the reference.
@given(st.lists(REQUIREMENTS.filter(lambda each: each.values != ("",) or each.operator in "!=")))
def test_a_printed_selector_parses_to_itself(requirements: list[Requirement]) -> None:
    compiled = Selector(requirements)
    assert Selector.parse(str(compiled)) == compiled


KEYS = st.sampled_from(["a", "b", "c", "example.com/d"])
VALUES = st.sampled_from(["", "x", "y", "1", "2", "-3", "9223372036854775808"])
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(["in", "notin"]), st.lists(VALUES, max_size=4)),
    st.builds(Requirement, KEYS, st.sampled_from(["=", "==", "!="]), st.lists(VALUES, max_size=1)),
    st.builds(Requirement, KEYS, st.sampled_from(["exists", "!"])),
    st.builds(Requirement, KEYS, st.sampled_from(["gt", "lt"]), st.lists(VALUES, max_size=2)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(REQUIREMENTS, max_size=5), st.dictionaries(KEYS, VALUES))
def test_merged_requirements_equal_single_ones(
    requirements: list[Requirement], labels: dict[str, str]
) -> None:
    want = all(each.matches(labels) for each in requirements)
    assert MergedRequirements(requirements).matches(labels) == want
    many = Selector(requirements * 20)
    assert many.matches(labels) == want


LINES = {
    "exists": lambda n: ",".join(["k"] * n),
    "does not exist": lambda n: ",".join(f"!x{each}" for each in range(n)),
    "is another": lambda n: ",".join(f"x{each}!=v" for each in range(n)),
    "is": lambda n: ",".join(["k=v"] * n),
    "is none of": lambda n: ",".join(f"k notin (a{each})" for each in range(n)),
    "is less": lambda n: ",".join(f"n<{each + 6}" for each in range(n)),
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_the_cost_of_a_match_does_not_depend_on_the_selectors_length(
    line: Callable[[int], str],
) -> None:
    labels = {"app": "web", "k": "v", "n": "5"}

    def cost(count: int) -> int:
        selector = Selector.parse(line(count))
        assert selector.matches(labels)
        return count_calls(lambda: selector.matches(labels))

    assert cost(1_000) == cost(100) <= 40


@given(st.text("aZ0-_./ ä", max_size=70) | st.text("a./", max_size=300))
@settings(max_examples=300, deadline=None)
def test_a_key_is_valid_if_it_has_no_errors(key: str) -> None:
    assert is_label_key(key) == (not label_key_errors(key))


def test_many_labels_of_a_selector_are_checked_together() -> None:
    """A selector can have 30,000 of them, and is compiled in one turn of the event loop."""
    labels = {f"many-{number}": "v" for number in range(10_000)}
    assert count_calls(lambda: Selector.from_label_selector(LabelSelector(match_labels=labels))) < (
        20 * len(labels)
    )
    with pytest.raises(SelectorError, match="many labels"):
        Selector.from_label_selector(LabelSelector(match_labels={**labels, "many labels": "v"}))
