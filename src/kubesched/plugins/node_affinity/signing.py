"""Node affinity in a form that does not depend on the order of its parts (docs/reference/05 §8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubesched.api import NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm

__all__ = ["signed_node_affinity"]


def signed_node_affinity(affinity: NodeAffinity | None) -> dict[str, list[str]] | None:
    if affinity is None:
        return None
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms if required is not None else ()
    return {
        "Required": sorted(map(_term, terms)),
        "Preferred": sorted(
            _text({"Weight": each.weight, "Preference": _term(each.preference)})
            for each in preferred or ()
        ),
    }


def _term(term: NodeSelectorTerm) -> str:
    return _text(
        {
            "MatchExpressions": _requirements(term.match_expressions),
            "MatchFields": _requirements(term.match_fields),
        }
    )


def _requirements(requirements: Iterable[NodeSelectorRequirement]) -> list[str]:
    return sorted(
        _text({"key": each.key, "operator": each.operator, "values": sorted(each.values)})
        for each in requirements
    )


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
