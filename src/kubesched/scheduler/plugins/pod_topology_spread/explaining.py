"""Explains rejections by topology spread: which constraint, and how many pods per domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kubesched.api import Pod, TopologySpreadConstraint
from kubesched.api.labels import Requirement, Selector
from kubesched.api.node_selector import RequiredNodeAffinity
from kubesched.api.pod_facts import is_terminating
from kubesched.framework import Cause, NodeInfo
from kubesched.framework.causes import TopologyLabelMissing
from kubesched.framework.explaining import (
    Detail,
    Explaining,
    RejectedNodes,
    Remedy,
    RuleKind,
)
from kubesched.scheduler.plugins.helpers.node_copies import nodes_in_other_domains
from kubesched.scheduler.plugins.helpers.pod_edits import (
    with_constraint,
)
from kubesched.scheduler.plugins.helpers.taint_rules import untolerated
from kubesched.scheduler.plugins.helpers.topology_keys import similar_key
from kubesched.scheduler.plugins.helpers.wording import (
    listed,
)

__all__ = ["PodTopologySpreadExplaining"]


_DOMAINS_SHOWN = 5

_DO_NOT_SCHEDULE = "DoNotSchedule"

_MOST = 3


class PodTopologySpreadExplaining(Explaining):
    """Counts pods per domain, and proposes to relax a constraint or to add a missing label."""

    kind = RuleKind.NEIGHBOURS

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        if isinstance(cause, TopologyLabelMissing):
            return _missing_label(rejected)
        return _skew(rejected)

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        return _remedies(rejected)


def _hard_constraints(pod: Pod) -> list[tuple[int, TopologySpreadConstraint]]:
    """Return the constraints that may reject nodes, with their places in the pod's list."""
    return [
        (place, each)
        for place, each in enumerate(pod.spec.topology_spread_constraints)
        if each.when_unsatisfiable == _DO_NOT_SCHEDULE
    ]


def _domain_counts(
    nodes: Iterable[NodeInfo], pod: Pod, constraint: TopologySpreadConstraint
) -> Counter[str]:
    """Count the pods that a constraint selects in each of its domains, empty ones included."""
    selector = _selector(pod, constraint)
    affinity = RequiredNodeAffinity.of(pod)
    counts: Counter[str] = Counter()
    for node in nodes:
        domain = node.labels.get(constraint.topology_key)
        if domain is None or node.node is None:
            continue
        if constraint.node_affinity_policy != "Ignore" and not affinity.matches_node(node.node):
            continue
        if constraint.node_taints_policy == "Honor" and untolerated(pod, node.node):
            continue
        counts[domain] += sum(
            other.pod.metadata.namespace == pod.metadata.namespace
            and not is_terminating(other.pod)
            and selector.matches(other.pod.metadata.labels)
            for other in node.pods
        )
    return counts


def _selector(pod: Pod, constraint: TopologySpreadConstraint) -> Selector:
    return Selector.from_label_selector(constraint.label_selector).add(
        *(
            Requirement(key, "in", (pod.metadata.labels[key],))
            for key in constraint.match_label_keys
            if key in pod.metadata.labels
        )
    )


def _own_count(pod: Pod, constraint: TopologySpreadConstraint) -> int:
    """Return 1 if the constraint counts the pod itself, otherwise 0."""
    return int(_selector(pod, constraint).matches(pod.metadata.labels))


def _lowest_count(counts: Counter[str], constraint: TopologySpreadConstraint) -> int:
    """Return the global minimum of a constraint: 0 if there are fewer domains than minDomains."""
    if len(counts) < (constraint.min_domains or 1):
        return 0
    return min(counts.values(), default=0)


def _missing_label(rejected: RejectedNodes) -> Detail:
    node = rejected.example
    missing = [
        each.topology_key
        for _, each in _hard_constraints(rejected.pod)
        if each.topology_key not in node.labels
    ]
    if not missing:
        return Detail()
    labels = ", ".join(missing)
    text = f"{node.name} has no label {labels}"
    sentence = f"topology spread needs it: {text}"
    if rejected.are_all:
        near = similar_key(rejected, missing[0])
        hint = f"; did you mean {near}?" if near else ""
        sentence = f"topology spread over {labels}: no node has the label {labels}{hint}"
    return Detail(detail=text, sentence=sentence, brief=f"no label {missing[0]}")


def _skew(rejected: RejectedNodes) -> Detail:
    pod, node = rejected.pod, rejected.example
    for _, each in _hard_constraints(pod):
        counts = _domain_counts(rejected.nodes, pod, each)
        domain = node.labels.get(each.topology_key)
        if domain is None or not counts:
            continue
        lowest = _lowest_count(counts, each)
        own = _own_count(pod, each)
        skew = counts[domain] + own - lowest
        if skew <= each.max_skew:
            continue
        return _too_skewed(each, counts, domain, skew, own)
    return Detail(sentence="topology spread constraints allow none of these nodes")


def _too_skewed(
    constraint: TopologySpreadConstraint, counts: Counter[str], domain: str, skew: int, own: int
) -> Detail:
    key, lowest = constraint.topology_key, _lowest_count(counts, constraint)
    short = key.rpartition("/")[2]
    emptiest = min((count, name) for name, count in counts.items())[1]
    ordered = sorted(counts.items(), key=lambda item: (item[1], item[0]))
    shown = listed((f"{name} {count}" for name, count in ordered), _DOMAINS_SHOWN)
    allowed = [name for name, count in ordered if count + own - lowest <= constraint.max_skew]
    if allowed:
        only = f"only {short} {listed(allowed)} may take the next pod"
    else:
        only = f"there are fewer than minDomains {constraint.min_domains} of them"
    selector = Selector.from_label_selector(constraint.label_selector)
    counted = "pods" if own else f"pods with {selector}, which the pod itself has not,"
    return Detail(
        f"maxSkew {constraint.max_skew} over {key}",
        f"skew {skew} in {domain}",
        f"pods per domain: {shown}; {emptiest} has the fewest",
        f"topology spread over {short} (maxSkew {constraint.max_skew}, DoNotSchedule): {only} "
        f"({counted} now: {shown})",
        f"too many pods in their {short} (topology spread)",
    )


def _remedies(rejected: RejectedNodes) -> Iterator[Remedy]:
    pod = rejected.pod
    for place, constraint in _hard_constraints(pod):
        counts = _domain_counts(rejected.nodes, pod, constraint)
        own = {
            node.labels[constraint.topology_key]
            for node in rejected.by_name
            if constraint.topology_key in node.labels
        }
        if counts and own:
            lowest = _lowest_count(counts, constraint)
            fewest = min(counts[domain] for domain in own)
            needed = fewest + _own_count(pod, constraint) - lowest
            if needed > constraint.max_skew:
                yield Remedy(
                    f"raise maxSkew over {constraint.topology_key} "
                    f"from {constraint.max_skew} to {needed}",
                    0.9,
                    with_constraint(pod, place, replace(constraint, max_skew=needed)),
                )
            if constraint.min_domains is not None and len(counts) < constraint.min_domains:
                yield Remedy(
                    f"lower minDomains over {constraint.topology_key} "
                    f"from {constraint.min_domains} to {len(counts)}",
                    0.8,
                    with_constraint(pod, place, replace(constraint, min_domains=len(counts))),
                )
        if near := similar_key(rejected, constraint.topology_key):
            yield Remedy(
                f"spread over {near} instead of {constraint.topology_key}",
                0.8,
                with_constraint(pod, place, replace(constraint, topology_key=near)),
            )
        # A server accepts minDomains with DoNotSchedule only.
        soft = replace(constraint, when_unsatisfiable="ScheduleAnyway", min_domains=None)
        yield Remedy(
            f"spread over {constraint.topology_key} only if possible (ScheduleAnyway)",
            1.0,
            with_constraint(pod, place, soft),
        )
    yield from _missing_labels(rejected)
    keys = (constraint.topology_key for _, constraint in _hard_constraints(pod))
    yield from nodes_in_other_domains(rejected, keys)


def _missing_labels(rejected: RejectedNodes) -> Iterator[Remedy]:
    """Propose labels for nodes that lack one topology key."""
    pod = rejected.pod
    for node in rejected.by_name[:_MOST]:
        assert node.node is not None
        missing = [
            each.topology_key
            for _, each in _hard_constraints(pod)
            if each.topology_key not in node.labels
        ]
        if len(missing) != 1:
            continue
        (key,) = missing
        values = sorted(
            {each.labels[key] for each in rejected.nodes if key in each.labels} or {node.name}
        )
        metadata = replace(node.node.metadata, labels={**node.labels, key: values[0]})
        yield Remedy(
            f"label {node.name} {key}={values[0]}",
            1.1,
            pod,
            (replace(node.node, metadata=metadata),),
            command=f"kubectl label node {node.name} {key}={values[0]}",
            node=node.name,
        )
