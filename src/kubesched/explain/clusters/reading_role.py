"""The ClusterRole that allows a user to read everything that scheduling depends on.

`docs/explain.md` shows it. It is generated from the table of kinds, so that it lists all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubesched.api.kinds import Kind
from kubesched.explain.clusters.sources import SCHEDULING_KINDS

__all__ = ["reading_role"]

_VERBS = ["get", "list", "watch"]


def reading_role(kinds: Iterable[Kind] = SCHEDULING_KINDS) -> dict[str, Any]:
    """Return the role as a manifest, with a rule for each API group."""
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        groups.setdefault(kind.group, []).append(kind.plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(groups[group]), "verbs": _VERBS}
        for group in sorted(groups)
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "kubesched-read"},
        "rules": rules,
    }
