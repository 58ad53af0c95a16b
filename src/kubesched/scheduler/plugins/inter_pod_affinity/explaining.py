"""Explains rejections by pod affinity and anti-affinity: which term, and which pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kubesched.api import LabelSelector, Namespace, Pod
from kubesched.api.labels import Selector
from kubesched.framework import Cause, NodeInfo, NodeView, PodInfo
from kubesched.framework.affinity_terms import AffinityTerm
from kubesched.framework.causes import ExistingPodAntiAffinityViolated, PodAntiAffinityViolated
from kubesched.framework.explaining import (
    Detail,
    Explaining,
    ObjectReader,
    RejectedNodes,
    Remedy,
    Removal,
    RuleKind,
)
from kubesched.scheduler.plugins.helpers.node_copies import nodes_in_other_domains
from kubesched.scheduler.plugins.helpers.pod_edits import (
    without_pod_term,
)
from kubesched.scheduler.plugins.helpers.wording import (
    listed,
    pod_name,
)

__all__ = ["InterPodAffinityExplaining"]


_HOSTNAME = "kubernetes.io/hostname"

_MOST_NODES = 3
_MOST_MOVED = 2


class InterPodAffinityExplaining(Explaining):
    """Names the pods that a term is about, and proposes to move them or to drop the term."""

    kind = RuleKind.NEIGHBOURS

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        if isinstance(cause, ExistingPodAntiAffinityViolated):
            return _existing_anti_affinity(rejected)
        if isinstance(cause, PodAntiAffinityViolated):
            return _anti_affinity(rejected)
        return _affinity(rejected)

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        return _remedies(rejected)


def _excluding_terms(
    objects: ObjectReader, nodes: NodeView, node: NodeInfo, info: PodInfo
) -> list[tuple[Pod, AffinityTerm]]:
    """Return the terms of required anti-affinity, with their pods, that exclude a pod."""
    labels = _namespace_labels(objects, info.pod)
    return [
        (other.pod, term)
        for each in nodes
        for other in each.pods_with_required_anti_affinity
        for term in other.required_anti_affinity_terms
        if _shares_domain(each, node, term) and term.matches(info.pod, labels)
    ]


def _existing_anti_affinity(rejected: RejectedNodes) -> Detail:
    node = rejected.example
    found = _excluding_terms(rejected.objects, rejected.nodes, node, rejected.pod_info)
    owners = listed(sorted({pod_name(pod) for pod, _ in found}))
    if not owners:
        return Detail()
    return Detail(
        "",
        "",
        f"kept away from {node.name} by {owners}",
        f"pods that run there keep it away by their anti-affinity (from {node.name}: {owners})",
        "kept away by other pods' anti-affinity",
    )


def _anti_affinity(rejected: RejectedNodes) -> Detail:
    info, node = rejected.pod_info, rejected.example
    for term in info.required_anti_affinity_terms:
        found = _matching(rejected, node, term)
        if not found:
            continue
        short = "node" if term.topology_key == _HOSTNAME else term.topology_key.rpartition("/")[2]
        is_own = term.matches(info.pod, _namespace_labels(rejected.objects, info.pod))
        if is_own:
            says = f"its anti-affinity allows one pod with {term.selector} per {short}"
        else:
            says = f"its anti-affinity forbids a {short} that has a pod with {term.selector}"
        every = f"every {short} has one" if rejected.are_all else f"{node.name} has one"
        return Detail(
            f"no such pod in the same {term.topology_key}",
            "",
            f"in the {term.topology_key} of {node.name}: {listed(found)}",
            f"{says}, and {every} (near {node.name}: {listed(found)})",
            f"anti-affinity to {term.selector}",
        )
    return Detail()


def _affinity(rejected: RejectedNodes) -> Detail:
    info, node = rejected.pod_info, rejected.example
    unmet = [term for term in info.required_affinity_terms if not _matching(rejected, node, term)]
    if not unmet:
        return Detail()
    wanted = [f"a pod like {_term(term)} in the same {term.topology_key}" for term in unmet]
    term = unmet[0]
    short = "node" if term.topology_key == _HOSTNAME else term.topology_key.rpartition("/")[2]
    places = Counter(
        each.labels.get(term.topology_key, "")
        for each in rejected.nodes
        for other in each.pods
        if _selects(rejected.objects, term, other.pod)
    )
    where = f"no such pod runs anywhere{_similar_pods(rejected, term)}"
    if places:
        where = f"such pods run only in {short} {listed(sorted(filter(None, places)))}"
    return Detail(
        " and ".join(wanted),
        "",
        f"none in reach of {node.name}",
        f"its affinity wants a pod with {_term(term)} in the same {short}, and {where}",
        f"no pod with {_term(term)} near",
    )


def _similar_pods(rejected: RejectedNodes, term: AffinityTerm) -> str:
    """Name pods that the term would select if they ran, or if it covered their namespaces."""
    alike = [
        pod
        for pod in rejected.objects.list(Pod)
        if term.selector.matches(pod.metadata.labels)
        and pod.metadata.uid != rejected.pod.metadata.uid
    ]
    waiting = [
        pod
        for pod in alike
        if not pod.spec.node_name and term.matches(pod, _namespace_labels(rejected.objects, pod))
    ]
    if waiting:
        verb = "is" if len(waiting) == 1 else "are"
        return f" ({listed(sorted(map(pod_name, waiting)))} {verb} pending as well)"
    elsewhere = sorted(pod_name(pod) for pod in alike if pod.spec.node_name)
    if elsewhere:
        return f" in the namespaces that the term looks into (in others: {listed(elsewhere)})"
    return ""


def _matching_pods(
    objects: ObjectReader, nodes: NodeView, near: NodeInfo, term: AffinityTerm
) -> list[Pod]:
    """Return the pods that a term selects in the domain of a node."""
    return [
        other.pod
        for node in nodes
        if _shares_domain(node, near, term)
        for other in node.pods
        if _selects(objects, term, other.pod)
    ]


def _matching(rejected: RejectedNodes, near: NodeInfo, term: AffinityTerm) -> list[str]:
    return sorted(map(pod_name, _matching_pods(rejected.objects, rejected.nodes, near, term)))


def _selects(objects: ObjectReader, term: AffinityTerm, pod: Pod) -> bool:
    # Labels first: few pods match them, and namespaces are slower to compare.
    return term.selector.matches(pod.metadata.labels) and term.matches(
        pod, _namespace_labels(objects, pod)
    )


def _namespace_labels(objects: ObjectReader, pod: Pod) -> dict[str, str]:
    found = objects.get(Namespace, pod.metadata.namespace)
    return {} if found is None else dict(found.metadata.labels)


def _shares_domain(node: NodeInfo, other: NodeInfo, term: AffinityTerm) -> bool:
    value = other.labels.get(term.topology_key)
    return value is not None and node.labels.get(term.topology_key) == value


def _term(term: AffinityTerm) -> str:
    return str(term.selector) or "any"


def _shown_selector(selector: LabelSelector | None) -> str:
    return str(Selector.from_label_selector(selector))


def _remedies(rejected: RejectedNodes) -> Iterator[Remedy]:
    yield from _drop_terms(rejected)
    objects, info = rejected.objects, rejected.pod_info
    keys = [term.topology_key for term in info.required_anti_affinity_terms]
    for node in rejected.by_name[:_MOST_NODES]:
        excluding = _excluding_terms(objects, rejected.nodes, node, info)
        keys += [term.topology_key for _, term in excluding]
        near = [pod for pod, _ in excluding]
        for term in info.required_anti_affinity_terms:
            near += _matching_pods(objects, rejected.nodes, node, term)
        others = {pod.metadata.uid: pod for pod in near}
        if 1 <= len(others) <= _MOST_MOVED:
            names = ", ".join(sorted(map(pod_name, others.values())))
            yield Remedy(
                f"move {names} away from {node.name}",
                1.0 + len(others),
                rejected.pod,
                tuple(
                    Removal(Pod, pod.metadata.name, pod.metadata.namespace)
                    for pod in others.values()
                ),
                node=node.name,
            )
    yield from nodes_in_other_domains(rejected, keys)


def _drop_terms(rejected: RejectedNodes) -> Iterator[Remedy]:
    affinity = rejected.pod.spec.affinity
    if affinity is None:
        return
    for side, name in (("pod_affinity", "affinity"), ("pod_anti_affinity", "anti-affinity")):
        part = getattr(affinity, side)
        if part is None:
            continue
        terms = part.required_during_scheduling_ignored_during_execution
        for place, term in enumerate(terms):
            yield Remedy(
                f"drop the required pod {name} to {_shown_selector(term.label_selector)!r} "
                f"over {term.topology_key}",
                1.0,
                without_pod_term(rejected.pod, side, place),
            )
