"""Spread and pod affinity: which constraint, which domains, which pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kubesched.api import LabelSelector, Namespace, Pod, TopologySpreadConstraint
from kubesched.api.labels import Requirement, Selector
from kubesched.api.node_selector import RequiredNodeAffinity
from kubesched.api.pod_facts import is_terminating
from kubesched.explain.details.context import Detail, DetailContext, listed, pod_name
from kubesched.explain.details.taints import untolerated
from kubesched.explain.objects import Objects
from kubesched.framework import NodeInfo, NodeView, PodInfo
from kubesched.framework.affinity_terms import AffinityTerm

__all__ = [
    "describe_affinity",
    "describe_spread",
    "domain_counts",
    "hard_constraints",
    "keepers_away",
    "lowest_count",
    "matching_pods",
    "shown_selector",
]

_DOMAINS_SHOWN = 5
_DO_NOT_SCHEDULE = "DoNotSchedule"
_HOSTNAME = "kubernetes.io/hostname"


def hard_constraints(pod: Pod) -> list[tuple[int, TopologySpreadConstraint]]:
    """Constraints that may reject nodes, with their places in the pod's list."""
    return [
        (place, each)
        for place, each in enumerate(pod.spec.topology_spread_constraints)
        if each.when_unsatisfiable == _DO_NOT_SCHEDULE
    ]


def domain_counts(
    nodes: Iterable[NodeInfo], pod: Pod, constraint: TopologySpreadConstraint
) -> Counter[str]:
    """Pods that count towards a constraint in each domain; domains without any are there too."""
    selector = Selector.from_label_selector(constraint.label_selector).add(
        *(
            Requirement(key, "in", (pod.metadata.labels[key],))
            for key in constraint.match_label_keys
            if key in pod.metadata.labels
        )
    )
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


def lowest_count(counts: Counter[str], constraint: TopologySpreadConstraint) -> int:
    """The count that others are compared with: of the emptiest domain, or of a missing one."""
    if len(counts) < (constraint.min_domains or 1):
        return 0
    return min(counts.values(), default=0)


def describe_spread(context: DetailContext, reason: str) -> Detail:
    pod, node = context.pod, context.example
    constraints = [each for _, each in hard_constraints(pod)]
    if "missing required label" in reason:
        missing = [
            each.topology_key for each in constraints if each.topology_key not in node.labels
        ]
        if not missing:
            return Detail()
        labels = ", ".join(missing)
        text = f"{node.name} has no label {labels}"
        says = f"topology spread needs it: {text}"
        if context.is_about_all:
            says = f"topology spread over {labels}: no node has the label {labels}"
        return Detail("", "", text, says, f"no label {missing[0]}")
    for each in constraints:
        counts = domain_counts(context.nodes, pod, each)
        domain = node.labels.get(each.topology_key)
        if domain is None or not counts:
            continue
        lowest = lowest_count(counts, each)
        skew = counts[domain] + 1 - lowest
        if skew <= each.max_skew:
            continue
        return _too_skewed(each, counts, domain, skew)
    return Detail(says="topology spread constraints allow none of these nodes")


def _too_skewed(
    constraint: TopologySpreadConstraint, counts: Counter[str], domain: str, skew: int
) -> Detail:
    key, lowest = constraint.topology_key, lowest_count(counts, constraint)
    short = key.rpartition("/")[2]
    emptiest = min((count, name) for name, count in counts.items())[1]
    ordered = sorted(counts.items(), key=lambda item: (item[1], item[0]))
    shown = listed((f"{name} {count}" for name, count in ordered), _DOMAINS_SHOWN)
    allowed = [name for name, count in ordered if count + 1 - lowest <= constraint.max_skew]
    if allowed:
        only = f"only {short} {listed(allowed)} may take the next pod"
    else:
        only = f"there are fewer than minDomains {constraint.min_domains} of them"
    return Detail(
        f"maxSkew {constraint.max_skew} over {key}",
        f"skew {skew} in {domain}",
        f"pods per domain: {shown}; {emptiest} has the fewest",
        f"topology spread over {short} (maxSkew {constraint.max_skew}, DoNotSchedule): {only} "
        f"(pods now: {shown})",
        f"too many pods in their {short} (topology spread)",
    )


def describe_affinity(context: DetailContext, reason: str) -> Detail:
    if "existing pods anti-affinity" in reason:
        return _kept_away(context)
    if "anti-affinity" in reason:
        return _anti_affinity(context)
    return _affinity(context)


def keepers_away(objects: Objects, nodes: NodeView, node: NodeInfo, info: PodInfo) -> list[Pod]:
    """Pods that keep others like this one away from a node by their anti-affinity."""
    labels = _namespace_labels(objects, info.pod)
    return [
        other.pod
        for each in nodes
        for other in each.pods_with_required_anti_affinity
        if any(
            _shares_domain(each, node, term) and term.matches(info.pod, labels)
            for term in other.required_anti_affinity_terms
        )
    ]


def _kept_away(context: DetailContext) -> Detail:
    node = context.example
    found = keepers_away(context.objects, context.nodes, node, context.pod_info)
    owners = listed(sorted(map(pod_name, found)))
    if not owners:
        return Detail()
    return Detail(
        "",
        "",
        f"kept away from {node.name} by {owners}",
        f"pods that run there keep it away by their anti-affinity (from {node.name}: {owners})",
        "kept away by other pods' anti-affinity",
    )


def _anti_affinity(context: DetailContext) -> Detail:
    info, node = context.pod_info, context.example
    for term in info.required_anti_affinity_terms:
        found = _matching(context, node, term)
        if not found:
            continue
        short = "node" if term.topology_key == _HOSTNAME else term.topology_key.rpartition("/")[2]
        is_own = term.matches(info.pod, _namespace_labels(context.objects, info.pod))
        if is_own:
            says = f"its anti-affinity allows one pod with {term.selector} per {short}"
        else:
            says = f"its anti-affinity forbids a {short} that has a pod with {term.selector}"
        every = f"every {short} has one" if context.is_about_all else f"{node.name} has one"
        return Detail(
            f"no such pod in the same {term.topology_key}",
            "",
            f"in the {term.topology_key} of {node.name}: {listed(found)}",
            f"{says}, and {every} (near {node.name}: {listed(found)})",
            f"anti-affinity to {term.selector}",
        )
    return Detail()


def _affinity(context: DetailContext) -> Detail:
    info, node = context.pod_info, context.example
    unmet = [term for term in info.required_affinity_terms if not _matching(context, node, term)]
    if not unmet:
        return Detail()
    wanted = [f"a pod like {_term(term)} in the same {term.topology_key}" for term in unmet]
    term = unmet[0]
    short = "node" if term.topology_key == _HOSTNAME else term.topology_key.rpartition("/")[2]
    places = Counter(
        each.labels.get(term.topology_key, "")
        for each in context.nodes
        for other in each.pods
        if _selects(context.objects, term, other.pod)
    )
    where = f"no such pod runs anywhere{_nearly_wanted(context, term)}"
    if places:
        where = f"such pods run only in {short} {listed(sorted(filter(None, places)))}"
    return Detail(
        " and ".join(wanted),
        "",
        f"none in reach of {node.name}",
        f"its affinity wants a pod with {_term(term)} in the same {short}, and {where}",
        f"no pod with {_term(term)} near",
    )


def _nearly_wanted(context: DetailContext, term: AffinityTerm) -> str:
    """Pods that would do if they ran, or if the term looked into their namespaces."""
    alike = [
        pod
        for pod in context.objects.list(Pod)
        if term.selector.matches(pod.metadata.labels)
        and pod.metadata.uid != context.pod.metadata.uid
    ]
    waiting = [
        pod
        for pod in alike
        if not pod.spec.node_name and term.matches(pod, _namespace_labels(context.objects, pod))
    ]
    if waiting:
        verb = "is" if len(waiting) == 1 else "are"
        return f" ({listed(sorted(map(pod_name, waiting)))} {verb} pending as well)"
    elsewhere = sorted(pod_name(pod) for pod in alike if pod.spec.node_name)
    if elsewhere:
        return f" in the namespaces that the term looks into (in others: {listed(elsewhere)})"
    return ""


def matching_pods(
    objects: Objects, nodes: NodeView, near: NodeInfo, term: AffinityTerm
) -> list[Pod]:
    """Pods that a term selects in the domain of a node."""
    return [
        other.pod
        for node in nodes
        if _shares_domain(node, near, term)
        for other in node.pods
        if _selects(objects, term, other.pod)
    ]


def _matching(context: DetailContext, near: NodeInfo, term: AffinityTerm) -> list[str]:
    return sorted(map(pod_name, matching_pods(context.objects, context.nodes, near, term)))


def _selects(objects: Objects, term: AffinityTerm, pod: Pod) -> bool:
    # Labels first: hardly a pod gets further.
    return term.selector.matches(pod.metadata.labels) and term.matches(
        pod, _namespace_labels(objects, pod)
    )


def _namespace_labels(objects: Objects, pod: Pod) -> dict[str, str]:
    found = objects.get(Namespace, pod.metadata.namespace)
    return {} if found is None else dict(found.metadata.labels)


def _shares_domain(node: NodeInfo, other: NodeInfo, term: AffinityTerm) -> bool:
    value = other.labels.get(term.topology_key)
    return value is not None and node.labels.get(term.topology_key) == value


def _term(term: AffinityTerm) -> str:
    return str(term.selector) or "any"


def shown_selector(selector: LabelSelector | None) -> str:
    return str(Selector.from_label_selector(selector))
