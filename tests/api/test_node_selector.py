"""Node selectors: alternatives, errors and their paths.

docs/reference/05 §4.4, §11.5.
"""

from __future__ import annotations

import pytest

from kubesched.api import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
)
from kubesched.api.node_selector import NodeMatcher, PreferredNodeTerms, RequiredNodeAffinity
from kubesched.errors import SelectorError

Expression = tuple[str, str, tuple[str, ...]]

NAME_SYNTAX = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def requirements(expressions: tuple[Expression, ...]) -> tuple[NodeSelectorRequirement, ...]:
    return tuple(
        NodeSelectorRequirement(key=key, operator=operator, values=values)
        for key, operator, values in expressions
    )


def term(*expressions: Expression, fields: tuple[Expression, ...] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=requirements(expressions), match_fields=requirements(fields)
    )


def named(*names: str, operator: str = "In") -> NodeSelectorTerm:
    return term(fields=(("metadata.name", operator, names),))


def matcher(*terms: NodeSelectorTerm) -> NodeMatcher:
    return NodeMatcher.parse(NodeSelector(node_selector_terms=terms))


LABELS = {"zone": "a", "size": "0300"}

MATCHES = {
    "no terms match no node": ((), False),
    "an empty term matches no node": ((term(),), False),
    "terms are alternatives": ((term(("zone", "In", ("b",))), named("n1")), True),
    "inside a term everything must hold": (
        (term(("zone", "In", ("a",)), fields=(("metadata.name", "In", ("n2",)),)),),
        False,
    ),
    "greater": ((term(("size", "Gt", ("0206",))),), True),
    "less": ((term(("size", "Lt", ("0206",))),), False),
    "greater on a label that is no number": ((term(("zone", "Gt", ("1",))),), False),
    "greater on a missing label": ((term(("missing", "Gt", ("1",))),), False),
    "a missing label is not in a list": ((term(("missing", "NotIn", ("x",))),), True),
    "a missing label does not exist": ((term(("missing", "DoesNotExist", ())),), True),
    "a name": ((named("n1"),), True),
    "not that name": ((named("n1", operator="NotIn"),), False),
    "an unknown field is empty": ((term(fields=(("spec.x", "In", ("y",)),)),), False),
    "an unknown field is not another value": ((term(fields=(("spec.x", "NotIn", ("y",)),)),), True),
    "an unparsable term does not hide the others": (
        (named("n1", "n2"), term(("zone", "In", ("a",)))),
        True,
    ),
}


@pytest.mark.parametrize(("terms", "want"), MATCHES.values(), ids=MATCHES)
def test_matches(terms: tuple[NodeSelectorTerm, ...], want: bool) -> None:
    assert matcher(*terms).matches(LABELS, "n1") is want
    assert matcher(*terms).check(LABELS, "n1") is want


def test_fields_of_a_nameless_node_are_not_checked() -> None:
    assert matcher(named("n1")).matches({}, "")


ERRORS = {
    "two names in a field": (
        (named("a", "b"),),
        'nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["a","b"]: '
        "must have one element",
    ),
    "an operator that fields do not have": (
        (named(operator="Exists"),),
        'nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: "Exists": '
        'supported values: "In", "NotIn"',
    ),
    "an unknown operator": (
        (term(), term(("k", "X", ()))),
        'nodeSelectorTerms[1].matchExpressions[0].operator: Unsupported value: "X": '
        'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
    ),
    "a value missing": (
        (term(("k", "In", ())),),
        "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: null: "
        "for 'in', 'notin' operators, values set can't be empty",
    ),
    "errors of several terms": (
        (named("a", "b"), term(("k", "Gt", ("x",)))),
        '[nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["a","b"]: '
        "must have one element, nodeSelectorTerms[1].matchExpressions[0].values[0]: "
        "Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer]",
    ),
}


@pytest.mark.parametrize(("terms", "want"), ERRORS.values(), ids=ERRORS)
def test_errors_name_the_path(terms: tuple[NodeSelectorTerm, ...], want: str) -> None:
    selector = NodeSelector(node_selector_terms=terms)
    assert not NodeMatcher.parse(selector).matches({}, "n1")
    assert str(NodeMatcher.parse(selector).error) == want
    with pytest.raises(SelectorError) as error:
        NodeMatcher.parse(selector).check({}, "n1")
    assert str(error.value) == want
    with pytest.raises(SelectorError) as error:
        NodeMatcher.parse_strictly(selector)
    assert str(error.value) == want


def test_strict_parsing_fails_even_if_another_term_would_match() -> None:
    selector = NodeSelector(node_selector_terms=(named("a", "b"), term(("zone", "Exists", ()))))
    assert NodeMatcher.parse(selector).check(LABELS, "n1")
    with pytest.raises(SelectorError):
        NodeMatcher.parse_strictly(selector)


def test_a_negative_number_cannot_be_compared_with() -> None:
    compared = matcher(term(("size", "Gt", ("-5",))))
    assert compared.error is not None
    assert not compared.matches(LABELS, "n1")


def test_a_selector_with_too_many_requirements_is_one_invalid_term() -> None:
    most = [term(("zone", "Exists", ())) for _ in range(1_000)]
    assert matcher(*most).matches(LABELS, "n1")
    beyond = matcher(*most, term(("zone", "Exists", ())))
    assert not beyond.matches(LABELS, "n1")
    assert len(beyond.terms) == 1
    with pytest.raises(SelectorError) as error:
        beyond.check(LABELS, "n1")
    assert str(error.value) == "nodeSelectorTerms: 1001 requirements, of which 1000 are allowed"


def test_values_do_not_count_as_requirements() -> None:
    values = tuple(f"v{number}" for number in range(2_000))
    assert matcher(term(("zone", "In", (*values, LABELS["zone"])))).matches(LABELS, "n1")


def pod(node_selector: dict[str, str] | None = None, required: NodeSelector | None = None) -> Pod:
    affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    return Pod(spec=PodSpec(node_selector=node_selector, affinity=Affinity(node_affinity=affinity)))


def test_a_pod_may_require_nothing() -> None:
    assert RequiredNodeAffinity.of(Pod()) == RequiredNodeAffinity()
    assert RequiredNodeAffinity.of(pod({})).matches({}, "n1")


def test_node_selector_and_required_affinity_are_anded() -> None:
    required = NodeSelector(node_selector_terms=(named("n1"),))
    both = RequiredNodeAffinity.of(pod({"zone": "a"}, required))
    assert both.matches(LABELS, "n1")
    assert not both.matches({}, "n1")
    assert not both.matches(LABELS, "n2")


def test_the_node_selector_is_evaluated_before_errors_are_raised() -> None:
    broken = NodeSelector(node_selector_terms=(named("a", "b"),))
    affinity = RequiredNodeAffinity.of(pod({"zone": "b"}, broken))
    assert affinity.check(LABELS, "n1") is False
    with pytest.raises(SelectorError):
        affinity.check({"zone": "b"}, "n1")
    assert affinity.matches({"zone": "b"}, "n1") is False


def preferred(weight: int, preference: NodeSelectorTerm) -> PreferredSchedulingTerm:
    return PreferredSchedulingTerm(weight=weight, preference=preference)


def test_preferences_add_up() -> None:
    terms = PreferredNodeTerms.parse(
        (
            preferred(2, term(("zone", "In", ("a",)))),
            preferred(4, named("n1")),
            preferred(5, term(("zone", "In", ("b",)))),
        )
    )
    assert terms.score(LABELS, "n1") == 6
    assert terms.score({}, "n2") == 0


def test_an_invalid_preference_is_an_error_unless_its_weight_is_zero() -> None:
    broken = term(("invalid key", "Exists", ()))
    with pytest.raises(SelectorError) as error:
        PreferredNodeTerms.parse((preferred(2, broken),))
    assert str(error.value) == (
        f'[0].matchExpressions[0].key: Invalid value: "invalid key": {NAME_SYNTAX}'
    )
    assert PreferredNodeTerms.parse((preferred(0, broken), preferred(3, term()))).terms == ()
