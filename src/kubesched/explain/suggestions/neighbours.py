"""Spread constraints and pod affinity: allow more skew, prefer instead of require, drop a term."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.explain.details.context import pod_name
from kubesched.explain.details.neighbours import (
    domain_counts,
    hard_constraints,
    keepers_away,
    lowest_count,
    matching_pods,
    shown_selector,
)
from kubesched.explain.model import Removal
from kubesched.explain.suggestions.candidate import CLUSTER, POD, Candidate, Question
from kubesched.explain.suggestions.pod_edits import with_constraint, without_pod_term

__all__ = ["relax_affinity", "relax_spread"]

_MOST = 3
_MOST_MOVED = 2


def relax_spread(question: Question) -> Iterator[Candidate]:
    pod = question.pod
    for place, constraint in hard_constraints(pod):
        counts = domain_counts(question.nodes, pod, constraint)
        own = {
            node.labels[constraint.topology_key]
            for node in question.infos
            if constraint.topology_key in node.labels
        }
        if counts and own:
            lowest = lowest_count(counts, constraint)
            needed = min(counts[domain] for domain in own) + 1 - lowest
            if needed > constraint.max_skew:
                yield Candidate(
                    f"raise maxSkew over {constraint.topology_key} "
                    f"from {constraint.max_skew} to {needed}",
                    POD,
                    0.9,
                    with_constraint(pod, place, replace(constraint, max_skew=needed)),
                )
        soft = replace(constraint, when_unsatisfiable="ScheduleAnyway")
        yield Candidate(
            f"spread over {constraint.topology_key} only if possible (ScheduleAnyway)",
            POD,
            1.0,
            with_constraint(pod, place, soft),
        )
    for node in question.infos[:_MOST]:
        assert node.node is not None
        missing = [
            each.topology_key
            for _, each in hard_constraints(pod)
            if each.topology_key not in node.labels
        ]
        if len(missing) != 1:
            continue
        (key,) = missing
        values = sorted(
            {each.labels[key] for each in question.nodes if key in each.labels} or {node.name}
        )
        metadata = replace(node.node.metadata, labels={**node.labels, key: values[0]})
        yield Candidate(
            f"label {node.name} {key}={values[0]}",
            CLUSTER,
            1.1,
            pod,
            (replace(node.node, metadata=metadata),),
            command=f"kubectl label node {node.name} {key}={values[0]}",
            node=node.name,
        )


def relax_affinity(question: Question) -> Iterator[Candidate]:
    yield from _drop_terms(question)
    objects, info = question.model.objects, question.pod_info
    for node in question.infos[:_MOST]:
        near = keepers_away(objects, question.nodes, node, info)
        for term in info.required_anti_affinity_terms:
            near += matching_pods(objects, question.nodes, node, term)
        others = {pod.metadata.uid: pod for pod in near}
        if 1 <= len(others) <= _MOST_MOVED:
            names = ", ".join(sorted(map(pod_name, others.values())))
            yield Candidate(
                f"move {names} away from {node.name}",
                CLUSTER,
                1.0 + len(others),
                question.pod,
                tuple(
                    Removal(Pod, pod.metadata.name, pod.metadata.namespace)
                    for pod in others.values()
                ),
                node=node.name,
            )


def _drop_terms(question: Question) -> Iterator[Candidate]:
    affinity = question.pod.spec.affinity
    if affinity is None:
        return
    for side, name in (("pod_affinity", "affinity"), ("pod_anti_affinity", "anti-affinity")):
        part = getattr(affinity, side)
        if part is None:
            continue
        terms = part.required_during_scheduling_ignored_during_execution
        for place, term in enumerate(terms):
            yield Candidate(
                f"drop the required pod {name} to {shown_selector(term.label_selector)!r} "
                f"over {term.topology_key}",
                POD,
                1.0,
                without_pod_term(question.pod, side, place),
            )
