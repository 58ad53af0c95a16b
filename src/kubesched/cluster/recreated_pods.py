"""Pods of another cluster in the form of a client's request, without fields that its server added.

A server merges `matchLabelKeys` into selectors, and refuses a pod that has both. It also refuses
ephemeral containers and the marks of static pods in a new pod of a client.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.meta import LabelSelector

__all__ = ["MIRROR", "as_client_creates"]

# The mark of a static pod, which only a kubelet may set.
MIRROR: Final = "kubernetes.io/config.mirror"


def as_client_creates(pod: Pod) -> Pod:
    """Return the pod in the form that a server accepts from a client."""
    metadata, spec = pod.metadata, pod.spec
    if MIRROR in metadata.annotations:
        annotations = {key: each for key, each in metadata.annotations.items() if key != MIRROR}
        metadata = replace(metadata, annotations=annotations)
    constraints = tuple(
        replace(each, match_label_keys=_unmerged(each.match_label_keys, each.label_selector))
        for each in spec.topology_spread_constraints
    )
    spec = replace(
        spec,
        ephemeral_containers=(),
        topology_spread_constraints=constraints,
        affinity=_with_plain_terms(spec.affinity),
    )
    return replace(pod, metadata=metadata, spec=spec)


def _unmerged(keys: Iterable[str], selector: LabelSelector | None) -> tuple[str, ...]:
    """Return the keys that have not been merged into the selector."""
    merged = () if selector is None else selector.match_expressions
    names = {each.key for each in merged}
    return tuple(key for key in keys if key not in names)


def _with_plain_terms(affinity: Any) -> Any:
    if affinity is None:
        return None
    sides = {}
    for name in ("pod_affinity", "pod_anti_affinity"):
        side = getattr(affinity, name)
        if side is not None:
            required = side.required_during_scheduling_ignored_during_execution
            preferred = side.preferred_during_scheduling_ignored_during_execution
            sides[name] = replace(
                side,
                required_during_scheduling_ignored_during_execution=tuple(map(_plain, required)),
                preferred_during_scheduling_ignored_during_execution=tuple(
                    replace(each, pod_affinity_term=_plain(each.pod_affinity_term))
                    for each in preferred
                ),
            )
    return replace(affinity, **sides)


def _plain(term: Any) -> Any:
    return replace(
        term,
        match_label_keys=_unmerged(term.match_label_keys, term.label_selector),
        mismatch_label_keys=_unmerged(term.mismatch_label_keys, term.label_selector),
    )
