"""Mutants of filters, of cached answers, and of the choice of a profile."""

from __future__ import annotations

from typing import Any

from kubesched.api import Pod
from kubesched.framework import NodeInfo
from tests.fault_injection.mutants.mutant import (
    Mutant,
    Overlay,
    no,
    nothing,
    passes_all,
    remove_filter,
    replace,
    replace_names,
    success,
    with_value,
    without_call,
    wrap,
)

__all__ = ["MUTANTS"]

_PLUGINS = "kubesched.scheduler.plugins"
_FIT = "kubesched.scheduler.plugins.node_resources_fit.filtering"
_TERMS = "kubesched.scheduler.plugins.inter_pod_affinity.filtering.RequiredTerms"
_SPREAD = "kubesched.scheduler.plugins.pod_topology_spread.filtering"
_ANSWERS = "kubesched.scheduler.runtime.answer_cache.AnswerCache"


def _raise_limit(original: Any, self: Any) -> int:
    limit: int = original(self)
    return limit + 1


def _ignore_pod_itself(original: Any, self: Any, constraint: Any, *args: Any) -> None:
    original(self, constraint, *args)
    self.slack = constraint.max_skew


def _lower_allowed_pods(
    original: Any, demand: Any, allocatable: Any, allowed: int, *args: Any
) -> Any:
    return original(demand, allocatable, allowed - 1, *args)


def _has_room_for_two(original: Any, plain: Any, node: NodeInfo) -> bool:
    return original(plain, Overlay(node, allowed_pod_number=node.allowed_pod_number - 1))


def _has_room_for_one_too_many(original: Any, plain: Any, node: NodeInfo) -> bool:
    return original(plain, Overlay(node, allowed_pod_number=node.allowed_pod_number + 1))


def _has_room_for_a_thousandth(original: Any, plain: Any, node: NodeInfo) -> bool:
    cpu, *others = plain
    return original((cpu - 1, *others), node)


def _reject_for_ever(complaints: Any, *, is_unresolvable: bool) -> Any:
    from kubesched.scheduler.plugins.node_resources_fit import filtering

    return filtering._rejection(complaints, is_unresolvable=True)


def _needs_no_match(_original: Any, self: Any) -> bool:
    return bool(self.affinity.is_empty)


def _ignore_existing_terms(original: Any, self: Any, nodes: Any) -> Any:
    return original(Overlay(self, existing=Overlay(self.existing, is_empty=True)), nodes)


def _keep_objects_version(original: Any, self: Any, entry: Any, *args: Any) -> Any:
    objects = Overlay(self._objects, of=lambda _kinds: max(entry.filter_objects, 0))
    return original(Overlay(self, _objects=objects), entry, *args)


def _first_profile(profiles: Any) -> Any:
    return Overlay(profiles, get=lambda _name: next(iter(profiles.values())))


def _without_deletion(original: Any, pod: Pod, cache: Any) -> Any:
    return original(Overlay(pod, metadata=Overlay(pod.metadata, deletion_timestamp=None)), cache)


MUTANTS = {
    "host ports are given twice": Mutant(5, remove_filter(f"{_PLUGINS}.node_ports.NodePorts")),
    "nodes have no capacity": Mutant(
        0, remove_filter(f"{_PLUGINS}.node_resources_fit.NodeResourcesFit")
    ),
    "taints are ignored": Mutant(0, remove_filter(f"{_PLUGINS}.taint_toleration.TaintToleration")),
    "node selectors are ignored": Mutant(
        0,
        (
            *remove_filter(f"{_PLUGINS}.node_affinity.NodeAffinity"),
            replace(f"{_PLUGINS}.node_affinity.NodeAffinity.pre_filter", success),
        ),
    ),
    "cordons are ignored": Mutant(
        0,
        (
            *remove_filter(f"{_PLUGINS}.node_unschedulable.NodeUnschedulable"),
            *remove_filter(f"{_PLUGINS}.taint_toleration.TaintToleration"),
        ),
    ),
    "topology spread allows a skew that is too large by one": Mutant(
        4, (wrap(f"{_SPREAD}._Spread.limit", _raise_limit),)
    ),
    "required affinity and anti-affinity are ignored": Mutant(
        0, (replace(f"{_TERMS}.verdict", success), replace(f"{_TERMS}.verdicts", passes_all))
    ),
    "a ReadWriteOncePod claim is given to two pods": Mutant(
        17, remove_filter(f"{_PLUGINS}.volume_restrictions.VolumeRestrictions")
    ),
    "the last pod of a node is rejected": Mutant(
        1,
        (
            wrap(f"{_FIT}._has_room", _has_room_for_two),
            wrap(f"{_FIT}.fit_status", _lower_allowed_pods),
            with_value(f"{_FIT}.find_rejections", "nodes.pod_count", lambda counts: counts + 1),
        ),
    ),
    "a thousandth of a CPU too much is given": Mutant(
        16, (wrap(f"{_FIT}._has_room", _has_room_for_a_thousandth),)
    ),
    "a node takes one pod too many": Mutant(
        0, (wrap(f"{_FIT}._has_room", _has_room_for_one_too_many),)
    ),
    "a full node is rejected as if nothing could help": Mutant(
        0, (replace_names(f"{_FIT}.fit_status", _rejection=_reject_for_ever),)
    ),
    "the first pod of a group does not have to match its own affinity": Mutant(
        4, (wrap(f"{_TERMS}._is_first_match", _needs_no_match),)
    ),
    "the anti-affinity of existing pods is ignored for one node": Mutant(
        0,
        (
            with_value(
                f"{_TERMS}.verdict", "self.existing", lambda counts: Overlay(counts, any_on=no)
            ),
        ),
    ),
    "the anti-affinity of existing pods is ignored for many nodes": Mutant(
        0, (wrap(f"{_TERMS}.verdicts", _ignore_existing_terms),)
    ),
    "topology spread does not count the pod itself": Mutant(
        4, (wrap(f"{_SPREAD}._ConstraintCounts.__init__", _ignore_pod_itself),)
    ),
    "the best node is never replaced in the index over totals": Mutant(
        81, (replace("kubesched.framework.engine.total_index.TotalIndex.discard", nothing),)
    ),
    "after a change of a node only plugins that read pods are called": Mutant(
        0,
        (
            replace(
                "kubesched.scheduler.runtime.cached_answers.CachedFilters.to_call",
                lambda self, *_: self.reading_pods,
            ),
        ),
    ),
    "totals of nominated pods are not recomputed": Mutant(
        132,
        (
            without_call(
                "kubesched.scheduler.runtime.nominated_totals.NominatedPods._replace",
                "self._totals.clear",
            ),
        ),
    ),
    "cached answers outlive an object that they depend on": Mutant(
        119, (wrap(f"{_ANSWERS}._valid_filters", _keep_objects_version),)
    ),
    "cached answers outlive the version of a plugin": Mutant(
        6, (with_value(f"{_ANSWERS}._find", "self._versioned", lambda _plugins: ()),)
    ),
    "pods of all profiles are placed by the first": Mutant(
        6,
        (
            with_value(
                "kubesched.scheduler.scheduler.Scheduler.schedule_one",
                "self.profiles",
                _first_profile,
            ),
        ),
    ),
    "a pod that is being deleted is tried": Mutant(
        4,
        (
            wrap("kubesched.scheduler.scheduler.skip_reason", _without_deletion),
            wrap("kubesched.scheduler.pod_groups.group_cycle.skip_reason", _without_deletion),
        ),
    ),
}
