"""Node selectors over columns: which nodes of a view match.

docs/reference/05 §4.3, §4.4.

`api.node_selector` defines the semantics for one node; these functions compute the same for many
nodes. They read only the label columns that a selector names. An operator that a column of ids
cannot answer is evaluated once per distinct value.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubesched.api.labels import Requirement, Selector
from kubesched.api.node_selector import (
    FieldRequirement,
    NodeMatcher,
    NodeTerm,
    RequiredNodeAffinity,
)
from kubesched.framework import NodeView

__all__ = ["match_any_term", "match_required", "match_selector", "match_term"]

Mask = NDArray[np.bool_]


def match_required(required: RequiredNodeAffinity, nodes: NodeView) -> Mask:
    """Return the nodes that a pod's nodeSelector and required node affinity match."""
    if required.selector is None:
        if required.affinity is None:
            return np.ones(len(nodes), dtype=bool)
        return match_any_term(required.affinity, nodes)
    selected = match_selector(required.selector, nodes)
    if required.affinity is not None and selected.any():
        selected &= match_any_term(required.affinity, nodes)
    return selected


def match_any_term(matcher: NodeMatcher, nodes: NodeView) -> Mask:
    """Return the nodes that at least one valid term matches."""
    masks = [match_term(term, nodes) for term in matcher.terms if not term.errors]
    return np.logical_or.reduce(masks) if masks else np.zeros(len(nodes), dtype=bool)


def match_term(term: NodeTerm, nodes: NodeView) -> Mask:
    """Return the nodes that one term matches; an invalid term matches none."""
    if term.errors:
        return np.zeros(len(nodes), dtype=bool)
    matched = match_selector(term.selector, nodes)
    for field in term.fields:
        matched &= _match_field(field, nodes)
    return matched


def match_selector(selector: Selector, nodes: NodeView) -> Mask:
    """Return the nodes whose labels match; the caller owns the mask."""
    if selector.is_nothing:
        return np.zeros(len(nodes), dtype=bool)
    matched: Mask | None = None
    for requirement in selector.requirements:
        mask = _match_requirement(requirement, nodes)
        matched = mask if matched is None else np.logical_and(matched, mask, out=matched)
    return np.ones(len(nodes), dtype=bool) if matched is None else matched


def _match_requirement(requirement: Requirement, nodes: NodeView) -> Mask:
    values = nodes.table.label_column(requirement.key).values
    ids = nodes.label_ids(requirement.key)
    match requirement.operator:
        case "exists":
            return ids >= 0
        case "!":
            return ids < 0
        case "in" | "=" | "==":
            wanted = [
                number for each in requirement.value_set if (number := values.find(each)) >= 0
            ]
            if len(wanted) == 1:
                return np.equal(ids, wanted[0])
            return _lookup(ids, len(values), wanted, inside=True)
        case "notin" | "!=":
            unwanted = [values.find(each) for each in requirement.value_set]
            return _lookup(ids, len(values), [n for n in unwanted if n >= 0], inside=False)
        case _:
            matching = (n for n, v in enumerate(values.values) if requirement.matches_value(v))
            return _lookup(ids, len(values), matching, inside=True)


def _lookup(ids: NDArray[np.int32], count: int, chosen: Iterable[int], *, inside: bool) -> Mask:
    """Return where the id is, or (`inside=False`) is not, among the chosen.

    An absent label (-1) is never among them.
    """
    verdict = np.full(count + 1, not inside)
    verdict[list(chosen)] = inside
    return verdict.take(ids)  # -1, an absent label, takes the last entry


def _match_field(field: FieldRequirement, nodes: NodeView) -> Mask:
    if field.key != "metadata.name":
        return np.full(len(nodes), field.matches(""))
    row = nodes.table.row_of.get(field.value, -1)
    return np.not_equal(nodes.rows, row) if field.is_negated else np.equal(nodes.rows, row)
