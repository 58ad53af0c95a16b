"""Explains preemption: the victims, or why there are none, and a priority that would help."""

from __future__ import annotations

import itertools
from typing import Final, NamedTuple

from msgspec.structs import replace

from kubesched.api import ObjectMeta, Pod, PriorityClass
from kubesched.api.pod_facts import pod_priority
from kubesched.explain.clusters.cluster_model import ClusterModel, SearchOutcome
from kubesched.explain.explanation import Preemption, Suggestion
from kubesched.explain.remedy_trials import moves_siblings, try_out
from kubesched.framework import CycleState, PodInfo, Remedy, Removal
from kubesched.scheduler.plugins.helpers.budget_limits import blocking_budgets
from kubesched.scheduler.plugins.helpers.wording import listed, pod_name

__all__ = ["explain_preemption", "preemption_suggestions"]

_QUESTIONS = itertools.count()
_NEVER = "Never"
_PREEMPTS = "PreemptLowerPriority"
# The highest value of a class that a user may create.
_HIGHEST: Final = 1_000_000_000


def explain_preemption(model: ClusterModel, pod: Pod, outcome: SearchOutcome) -> Preemption | None:
    """Run PostFilter for a pod that fits no node; None if the profile has no PostFilter plugin."""
    if outcome.diagnosis is None or not model.framework_of(pod).post_filter_plugins:
        return None
    # Plugins store evictions by the uid of the preemptor; a different uid leaves that state
    # unchanged.
    with model.changed([asked := _with_new_uid(pod)]):
        first = _post_filter(model, asked, outcome)
    if first.possible:
        return _with_victims(model, pod, first)
    if pod.spec.preemption_policy == _NEVER:
        willing = replace(pod, spec=replace(pod.spec, preemption_policy=_PREEMPTS))
        would = _at_priority(model, willing, pod_priority(pod))
        if would is not None:
            return replace(would, possible=False, message=first.message, blocked_by_policy=True)
    needed = _lowest_that_helps(model, pod)
    if needed is None:
        return first
    priority, would = needed
    return replace(would, possible=False, message=first.message, priority_needed=priority)


def _lowest_that_helps(model: ClusterModel, pod: Pod) -> tuple[int, Preemption] | None:
    """Return the lowest priority with which preemption helps, and its result.

    A higher priority may preempt more pods, so a binary search finds the lowest.
    """
    above = _priorities_above(model, pod)
    found = None
    low, high = 0, len(above) - 1
    while low <= high:
        # Try the highest first: if it does not help, no other one does.
        middle = high if found is None else (low + high) // 2
        would = _at_priority(model, pod, above[middle])
        if would is not None:
            found, high = (above[middle], would), middle - 1
        elif found is None:
            return None
        else:
            low = middle + 1
    return found


def preemption_suggestions(
    model: ClusterModel, pod: Pod, preemption: Preemption | None
) -> tuple[Suggestion, ...]:
    """Suggest another priority or policy with which preemption would help."""
    if preemption is None or preemption.possible or not preemption.node:
        return ()
    victims = [tuple(name.split("/", 1)) for name in preemption.victims]
    gone = tuple(Removal(Pod, name, namespace) for namespace, name in victims)
    evicts = f"it would evict {listed(preemption.victims)} on {preemption.node} then"
    if not victims:
        evicts = f"the room on {preemption.node} is kept for less important pods then"
    if preemption.blocked_by_policy:
        wanted = _class_to_use(model, pod_priority(pod))
        text = f"allow it to preempt (preemptionPolicy is Never) by {wanted.in_words}: {evicts}"
    else:
        assert preemption.priority_needed is not None
        wanted = _class_to_use(model, preemption.priority_needed)
        text = f"raise its priority to {preemption.priority_needed} or more, by {wanted.in_words}"
        text += f": {evicts}"
    chosen = wanted.priority_class
    spec = replace(
        pod.spec,
        priority_class_name=chosen.metadata.name,
        priority=chosen.value,
        preemption_policy=_PREEMPTS,
    )
    made = (chosen,) if wanted.is_new else ()
    # The scheduler itself evicts the pods.
    remedy = Remedy(text, 2.5, replace(pod, spec=spec), (*made, *gone), edits=made)
    if moves_siblings(pod, remedy, model):
        return ()
    found = try_out(model, remedy, "preemption")
    return () if found is None else (found,)


class _WantedClass(NamedTuple):
    """A priority class for the pod: an existing one, or one to create."""

    priority_class: PriorityClass
    is_new: bool

    @property
    def in_words(self) -> str:
        name = self.priority_class.metadata.name
        if self.is_new:
            return f"a new PriorityClass {name} of value {self.priority_class.value}"
        return f"priorityClassName {name}"


def _class_to_use(model: ClusterModel, priority: int) -> _WantedClass:
    """Return the lowest class that is high enough and may preempt, or a new one.

    A server takes the priority and the policy of a pod from its class alone.
    """
    known = {each.metadata.name: each for each in model.objects.list(PriorityClass)}
    usable = [
        each
        for each in known.values()
        if each.value >= priority
        and each.preemption_policy != _NEVER
        and not each.metadata.name.startswith("system-")
    ]
    if usable:
        return _WantedClass(min(usable, key=lambda each: (each.value, each.metadata.name)), False)
    name = f"priority-{priority}" if priority >= 0 else f"priority-minus-{-priority}"
    while name in known:
        name += "-preempting"
    made = PriorityClass(
        metadata=ObjectMeta(name=name), value=priority, preemption_policy=_PREEMPTS
    )
    return _WantedClass(made, True)


def _with_new_uid(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, uid=f"question-{next(_QUESTIONS)}"))


def _post_filter(model: ClusterModel, pod: Pod, outcome: SearchOutcome) -> Preemption:
    framework = model.framework_of(pod)
    diagnosis = outcome.diagnosis
    assert diagnosis is not None
    result = framework.run_post_filter(outcome.state, PodInfo(pod), diagnosis)
    node = result.nominating.node_name if result.nominating is not None else ""
    return Preemption(
        possible=result.status.is_success and bool(node), node=node, message=result.status.message
    )


def _priorities_above(model: ClusterModel, pod: Pod) -> list[int]:
    """Return the priorities just above those of the pods on nodes, lowest first."""
    own = pod_priority(pod)
    above = {pod_priority(each) + 1 for each in model.objects.list(Pod) if each.spec.node_name}
    return sorted(each for each in above if own < each <= _HIGHEST)


def _at_priority(model: ClusterModel, pod: Pod, priority: int) -> Preemption | None:
    """Return the preemption with another priority; None if it would not help."""
    spec = replace(pod.spec, priority=priority, preemption_policy=_PREEMPTS)
    raised = _with_new_uid(replace(pod, spec=spec))
    with model.changed([raised]):
        outcome = model.search(raised)
        if outcome.node_name:
            return Preemption(possible=True, node=outcome.node_name)
        if outcome.diagnosis is None:
            return None
        found = _post_filter(model, raised, outcome)
    return _with_victims(model, raised, found) if found.possible else None


def _with_victims(model: ClusterModel, pod: Pod, found: Preemption) -> Preemption:
    with model.changed([_with_new_uid(pod)]):
        victims = _victims(model, pod, found.node)
    budgets = [
        f"{each.metadata.namespace}/{each.metadata.name}"
        for each in blocking_budgets(model.objects, victims)
    ]
    return replace(
        found, victims=tuple(map(pod_name, victims)), budgets_violated=tuple(sorted(budgets))
    )


def _victims(model: ClusterModel, pod: Pod, node_name: str) -> list[Pod]:
    """Return the victims on the node.

    As in the reference, all are removed, then re-added if they fit.
    """
    node = model.snapshot.get(node_name)
    priority = pod_priority(pod)
    lower = sorted(
        (each.pod for each in node.pods if pod_priority(each.pod) < priority),
        key=lambda each: (-pod_priority(each), each.metadata.name),
    )
    gone = list(lower)
    for candidate in lower:
        trial = [each for each in gone if each is not candidate]
        if _fits(model, pod, node_name, trial):
            gone = trial
    return gone


def _fits(model: ClusterModel, pod: Pod, node_name: str, gone: list[Pod]) -> bool:
    removals = [Removal(Pod, each.metadata.name, each.metadata.namespace) for each in gone]
    with model.changed(removals):
        framework = model.framework_of(pod)
        state = CycleState()
        pod_info = PodInfo(pod)
        outcome = framework.run_pre_filter(state, pod_info)
        node = model.snapshot.get(node_name)
        return outcome.status.is_success and framework.dry_run.fits_on(state, pod_info, node)
