"""Explains rejections by pod affinity and anti-affinity: which term, and which pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from kubesched.api import LabelSelector, Namespace, Pod, PodAffinityTerm
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
    with_pod_term,
    without_pod_term,
)
from kubesched.scheduler.plugins.helpers.topology_keys import similar_key
from kubesched.scheduler.plugins.helpers.wording import (
    listed,
    nearest,
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
    if not any(term.topology_key in each.labels for each in rejected.nodes):
        near = similar_key(rejected, term.topology_key)
        hint = f"; did you mean {near}?" if near else ""
        where = f"no node has the label {term.topology_key}{hint}"
    elif domains := sorted(filter(None, places)):
        where = f"such pods run only in {short} {listed(domains)}"
    elif places:
        where = f"such pods run only on nodes without the label {term.topology_key}"
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
    similar = _similar_labels(rejected, term)
    meant = ",".join(f"{key}={value}" for key, value in similar.items())
    return f"; did you mean {meant}?" if meant else ""


def _similar_labels(rejected: RejectedNodes, term: AffinityTerm) -> dict[str, str]:
    """Return the labels that were probably meant by a term that selects no pod."""
    selector = _label_selector(rejected.pod, term)
    if selector is None or selector.match_expressions:
        return {}
    meant = {}
    for key, value in selector.match_labels.items():
        present = {
            other.pod.metadata.labels[key]
            for node in rejected.nodes
            for other in node.pods
            if key in other.pod.metadata.labels
        }
        near = value if value in present else nearest(value, sorted(present))
        if not near:
            return {}
        meant[key] = near
    return {} if meant == selector.match_labels else meant


def _label_selector(pod: Pod, term: AffinityTerm) -> LabelSelector | None:
    """Return the selector of a required term as the pod has it."""
    affinity = pod.spec.affinity
    near = None if affinity is None else affinity.pod_affinity
    terms = () if near is None else near.required_during_scheduling_ignored_during_execution
    for each in terms:
        is_same = Selector.from_label_selector(each.label_selector) == term.selector
        if is_same and each.topology_key == term.topology_key:
            return each.label_selector
    return None


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
            if near := similar_key(rejected, term.topology_key):
                yield Remedy(
                    f"use topologyKey {near} instead of {term.topology_key}",
                    0.8,
                    with_pod_term(rejected.pod, side, place, replace(term, topology_key=near)),
                )
            yield from _other_labels(rejected, side, place, term)
            yield Remedy(
                f"drop the required pod {name} to {_shown_selector(term.label_selector)!r} "
                f"over {term.topology_key}",
                1.0,
                without_pod_term(rejected.pod, side, place),
            )


def _other_labels(
    rejected: RejectedNodes, side: str, place: int, term: PodAffinityTerm
) -> Iterator[Remedy]:
    """Propose the labels that were probably meant by a term of affinity that selects no pod."""
    if side != "pod_affinity":
        return
    parsed = rejected.pod_info.required_affinity_terms[place]
    if any(_selects(rejected.objects, parsed, each) for each in rejected.objects.list(Pod)):
        return
    meant = _similar_labels(rejected, parsed)
    if not meant or term.label_selector is None:
        return
    selector = replace(term.label_selector, match_labels=meant)
    yield Remedy(
        f"use {_shown_selector(selector)} instead of {_shown_selector(term.label_selector)} in the "
        "required pod affinity",
        0.8,
        with_pod_term(rejected.pod, side, place, replace(term, label_selector=selector)),
    )
