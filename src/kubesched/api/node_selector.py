"""Node selectors, compiled: required and preferred nodes of a pod.

docs/reference/05 §4.4. Terms are alternatives; all conditions of a term must hold. An invalid
term matches no node, and the other terms still count. Its errors are stored: use `check`, which
raises them, where the reference reports them, and `matches` where it ignores them. A selector with
too many requirements is one invalid term.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kubesched.api.affinity import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from kubesched.api.labels import Requirement, Selector
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.api.sized_caches import (
    MOST_WEIGHT,
    CachePerObject,
    TooLargeError,
    weight_of_texts,
)
from kubesched.api.validation import invalid, joined, not_supported
from kubesched.errors import SelectorError

__all__ = [
    "MOST_REQUIREMENTS",
    "FieldRequirement",
    "NodeMatcher",
    "NodeTerm",
    "PreferredNodeTerm",
    "PreferredNodeTerms",
    "RequiredNodeAffinity",
    "node_selector_weight",
]

_LABEL_OPERATORS: Final = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
    "Gt": "gt",
    "Lt": "lt",
}
_FIELD_OPERATORS: Final = ("In", "NotIn")
_NAME_FIELD: Final = "metadata.name"
# Of all terms: each is compared with every node. Values are lookups and not limited.
MOST_REQUIREMENTS: Final = 1_000


class FieldRequirement(NamedTuple):
    """A condition on a field of a node; the only supported field is its name."""

    key: str
    value: str
    is_negated: bool

    def matches(self, node_name: str) -> bool:
        actual = node_name if self.key == _NAME_FIELD else ""
        return (actual == self.value) != self.is_negated


class NodeTerm(NamedTuple):
    """A conjunction of conditions on labels and fields of a node."""

    selector: Selector
    fields: tuple[FieldRequirement, ...]
    errors: tuple[str, ...]

    @classmethod
    def parse(cls, term: NodeSelectorTerm, path: str) -> NodeTerm:
        errors: list[str] = []
        requirements = _parse_expressions(
            term.match_expressions, f"{path}.matchExpressions", errors
        )
        fields = _parse_fields(term.match_fields, f"{path}.matchFields", errors)
        return cls(Selector(requirements), fields, tuple(errors))

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node matches; the fields of a node without a name are not checked."""
        return (
            not self.errors
            and self.selector.matches(labels)
            and (not name or all(field.matches(name) for field in self.fields))
        )


class NodeMatcher(NamedTuple):
    """Terms of which one must match; without terms no node matches."""

    terms: tuple[NodeTerm, ...]

    @classmethod
    def parse(cls, selector: NodeSelector, path: str = "") -> NodeMatcher:
        """Compile a selector and store its errors; empty terms are dropped."""
        return _parsed(selector, path)

    @classmethod
    def parse_strictly(cls, selector: NodeSelector, path: str = "") -> NodeMatcher:
        """Compile a selector; raise SelectorError if a term is invalid."""
        matcher = _parsed(selector, path)
        if (error := matcher.error) is not None:
            raise error
        return matcher

    @property
    def error(self) -> SelectorError | None:
        """The errors of all terms, in one text."""
        return _error(message for term in self.terms for message in term.errors)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(term.matches(labels, name) for term in self.terms)

    def check(self, labels: Mapping[str, str], name: str) -> bool:
        """Match, but raise SelectorError if no term matches and one is invalid."""
        if self.matches(labels, name):
            return True
        if (error := self.error) is not None:
            raise error
        return False

    def matches_node(self, node: Node) -> bool:
        return self.matches(node.metadata.labels, node.metadata.name)


class RequiredNodeAffinity(NamedTuple):
    """The node requirements of a pod: its nodeSelector and required node affinity."""

    selector: Selector | None = None
    affinity: NodeMatcher | None = None

    @classmethod
    def of(cls, pod: Pod) -> RequiredNodeAffinity:
        spec = pod.spec
        node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        return cls.of_parts(spec.node_selector, node_affinity)

    @property
    def weight(self) -> int:
        """A measure of the memory of the requirements."""
        terms = () if self.affinity is None else self.affinity.terms
        own = 0 if self.selector is None else self.selector.weight
        return own + sum(each.selector.weight for each in terms)

    @classmethod
    def of_parts(
        cls, node_selector: Mapping[str, str] | None, node_affinity: NodeAffinity | None
    ) -> RequiredNodeAffinity:
        required = (
            node_affinity.required_during_scheduling_ignored_during_execution
            if node_affinity is not None
            else None
        )
        return cls(
            Selector.from_map(node_selector) if node_selector else None,
            NodeMatcher.parse(required) if required is not None else None,
        )

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return (self.selector is None or self.selector.matches(labels)) and (
            self.affinity is None or self.affinity.matches(labels, name)
        )

    def check(self, labels: Mapping[str, str], name: str) -> bool:
        """Match like `matches`, but raise SelectorError if the result depends on invalid terms.

        A node that the nodeSelector rejects is rejected before the terms are evaluated.
        """
        if self.selector is not None and not self.selector.matches(labels):
            return False
        return self.affinity is None or self.affinity.check(labels, name)

    def matches_node(self, node: Node) -> bool:
        return self.matches(node.metadata.labels, node.metadata.name)


class PreferredNodeTerm(NamedTuple):
    """A term with its weight."""

    term: NodeTerm
    weight: int


class PreferredNodeTerms(NamedTuple):
    """Terms that each add their weight to the score of the nodes that they match."""

    terms: tuple[PreferredNodeTerm, ...]

    @classmethod
    def parse(
        cls, preferred: Sequence[PreferredSchedulingTerm], path: str = ""
    ) -> PreferredNodeTerms:
        """Compile preferences; terms of weight 0 and empty terms are dropped.

        Raises:
            SelectorError: a term is invalid.
        """
        terms = tuple(
            PreferredNodeTerm(NodeTerm.parse(each.preference, f"{path}[{index}]"), each.weight)
            for index, each in enumerate(preferred)
            if each.weight and not _is_empty(each.preference)
        )
        errors = (message for each in terms for message in each.term.errors)
        if (error := _error(errors)) is not None:
            raise error
        return cls(terms)

    def score(self, labels: Mapping[str, str], name: str) -> int:
        """Return the sum of the weights of the terms that match a node."""
        return sum(each.weight for each in self.terms if each.term.matches(labels, name))


# By the path in error texts, of which there are few.
_large_selectors: Final[CachePerObject[NodeSelector, dict[str, NodeMatcher]]] = CachePerObject()


def _parsed(selector: NodeSelector, path: str) -> NodeMatcher:
    large = _large_selectors.get(selector)
    if large is not None and path in large:
        return large[path]
    count = sum(
        len(each.match_expressions) + len(each.match_fields)
        for each in selector.node_selector_terms
    )
    if count > MOST_REQUIREMENTS:
        matcher = _beyond_limit(count, path)
    else:
        try:
            return _parse_small(selector, path)
        except TooLargeError:
            pass
        matcher = _parse(selector, path)
    _large_selectors.store(selector, {**(large or {}), path: matcher})
    return matcher


# Local volumes have a selector per node; a parsed one takes about 1 KB.
@lru_cache(maxsize=8192)
def _parse_small(selector: NodeSelector, path: str) -> NodeMatcher:
    if node_selector_weight(selector) > MOST_WEIGHT:
        raise TooLargeError
    return _parse(selector, path)


def node_selector_weight(selector: NodeSelector) -> int:
    """Return a measure of the memory of a selector."""
    return sum(
        weight_of_texts((each.key, each.operator)) + weight_of_texts(each.values)
        for term in selector.node_selector_terms
        for each in (*term.match_expressions, *term.match_fields)
    )


def _beyond_limit(count: int, path: str) -> NodeMatcher:
    message = f"{_terms_path(path)}: {count} requirements, of which {MOST_REQUIREMENTS} are allowed"
    return NodeMatcher((NodeTerm(Selector(()), (), (message,)),))


def _terms_path(path: str) -> str:
    return f"{path}.nodeSelectorTerms" if path else "nodeSelectorTerms"


def _parse(selector: NodeSelector, path: str) -> NodeMatcher:
    prefix = _terms_path(path)
    return NodeMatcher(
        tuple(
            NodeTerm.parse(term, f"{prefix}[{index}]")
            for index, term in enumerate(selector.node_selector_terms)
            if not _is_empty(term)
        )
    )


def _parse_expressions(
    expressions: Iterable[NodeSelectorRequirement], path: str, errors: list[str]
) -> list[Requirement]:
    requirements = []
    for index, each in enumerate(expressions):
        where = f"{path}[{index}]"
        operator = _LABEL_OPERATORS.get(each.operator)
        if operator is None:
            errors.append(not_supported(f"{where}.operator", each.operator, _LABEL_OPERATORS))
            continue
        requirement = Requirement(each.key, operator, each.values)
        if complaints := requirement.errors(where):
            errors += complaints
        else:
            requirements.append(requirement)
    return requirements


def _parse_fields(
    expressions: Iterable[NodeSelectorRequirement], path: str, errors: list[str]
) -> tuple[FieldRequirement, ...]:
    fields = []
    for index, each in enumerate(expressions):
        where = f"{path}[{index}]"
        if each.operator not in _FIELD_OPERATORS:
            errors.append(not_supported(f"{where}.operator", each.operator, _FIELD_OPERATORS))
        elif len(each.values) != 1:
            errors.append(invalid(f"{where}.values", each.values, "must have one element"))
        else:
            fields.append(FieldRequirement(each.key, each.values[0], each.operator == "NotIn"))
    return tuple(fields)


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _error(messages: Iterable[str]) -> SelectorError | None:
    collected = list(messages)
    return SelectorError(joined(collected)) if collected else None
