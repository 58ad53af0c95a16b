"""Builds the explanation of a pod from the search, all verdicts, suggestions and scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.explain.clusters.cluster_model import ClusterModel, ExplainError, SearchOutcome
from kubesched.explain.clusters.unknown_kinds import kinds_needed_by
from kubesched.explain.explanation import Explanation, Preemption, Suggestion, VerdictGroup
from kubesched.explain.groups import verdict_groups
from kubesched.explain.plugin_explanations import PluginExplanations
from kubesched.explain.preempting import explain_preemption, preemption_suggestions
from kubesched.explain.score_table import ScoreTable
from kubesched.explain.suggestions import find_suggestions
from kubesched.explain.summaries import (
    Summary,
    held_summary,
    lost_summary,
    not_running_summary,
    pending_summary,
    placed_summary,
    unschedulable_message,
    waiting_summary,
)
from kubesched.explain.untried_pods import with_other_scheduler, without_gates
from kubesched.explain.verdicts import AllVerdicts, find_all_verdicts, one_cause_each
from kubesched.framework import PodInfo, RejectedNodes, Status
from kubesched.scheduler.plugins.helpers.wording import listed, nearest, pod_name

__all__ = ["explain_pod"]

_FINISHED = ("Succeeded", "Failed")
_MOST_SCORES = 10


class _Attempt(NamedTuple):
    """The results of the scheduler's parts for a pod."""

    pod: Pod
    current: str  # the node of a pod that is placed
    outcome: SearchOutcome
    verdicts: AllVerdicts
    groups: tuple[VerdictGroup, ...]
    explanations: PluginExplanations
    held: Status | None  # why PreEnqueue keeps the pod out of the queue


def explain_pod(
    model: ClusterModel,
    pod: Pod,
    *,
    versus: str = "",
    suggest: bool = True,
    unknown: Sequence[str] = (),
    partial: Sequence[str] = (),
) -> Explanation:
    """Explain a pending pod, a placed pod, or a pod that does not exist yet.

    A placed pod is explained as if it were scheduled now, in a cluster without it.

    Raises:
        ExplainError: the pod has finished.
    """
    if pod.status.phase in _FINISHED:
        raise ExplainError(f"{pod_name(pod)} has finished ({pod.status.phase}): it needs no node")
    if "Node" in unknown and not pod.spec.node_name:
        answer = _without_nodes(model, pod)
    elif (pod.spec.scheduler_name or "default-scheduler") not in model.frameworks:
        answer = _of_other_scheduler(model, pod)
    elif pod.spec.node_name:
        with model.without(pod):
            answer = _explain(model, _unplaced(pod), pod.spec.node_name, versus, suggest=False)
        is_lost = "Node" not in unknown and model.objects.get(Node, pod.spec.node_name) is None
        if late := lost_summary(pod) if is_lost else not_running_summary(pod):
            answer = replace(answer, summary=late, breakdown="", advice="")
    else:
        answer = _explain(model, pod, "", versus, suggest=suggest)
    if "Pod" in partial:
        answer = _of_partial_view(pod, answer)
    if needed := kinds_needed_by(pod, unknown):
        answer = _without_kinds(answer, needed)
    return replace(answer, unknown=tuple(unknown), partial=tuple(partial))


def _explain(
    model: ClusterModel, pod: Pod, current: str, versus: str, *, suggest: bool
) -> Explanation:
    framework, info = model.framework_of(pod), PodInfo(pod)
    outcome = model.search(pod)
    verdicts = find_all_verdicts(framework, info, model.snapshot.nodes)
    explanations = PluginExplanations.of_framework(framework)
    groups = verdict_groups(model, info, verdicts, outcome, explanations)
    held = _held_back(model, pod)
    attempt = _Attempt(pod, current, outcome, verdicts, groups, explanations, held)
    if attempt.held is not None or pod.metadata.deletion_timestamp is not None:
        return _held(model, attempt, suggest=suggest)
    if outcome.result is None:
        return _pending(model, attempt, suggest=suggest)
    return _placed(model, attempt, versus)


def _pending(model: ClusterModel, attempt: _Attempt, *, suggest: bool) -> Explanation:
    pod, outcome, verdicts = attempt.pod, attempt.outcome, attempt.verdicts
    preemption: Preemption | None = None
    suggestions: tuple[Suggestion, ...] = ()
    if suggest:
        once = one_cause_each(pod, verdicts, attempt.explanations)
        suggestions = find_suggestions(model, pod, once, attempt.explanations)
        preemption = explain_preemption(model, pod, outcome)
        suggestions += preemption_suggestions(model, pod, preemption)
        suggestions = tuple(sorted(suggestions, key=lambda each: each.size))
    summary = pending_summary(
        model, pod, outcome, verdicts, suggestions, preemption, attempt.explanations
    )
    if not suggest:
        summary = summary._replace(advice="")
    if attempt.current:
        sentence = f"It runs on {attempt.current}; placed today it would wait: {summary.sentence}"
        summary = summary._replace(sentence=sentence)
    answer = _waiting(attempt, summary)
    return replace(answer, suggestions=suggestions, preemption=preemption)


def _held(model: ClusterModel, attempt: _Attempt, *, suggest: bool) -> Explanation:
    pod = attempt.pod
    if pod.metadata.deletion_timestamp is not None:
        left = ", ".join(pod.metadata.finalizers)
        advice = f"It goes once its finalizers are removed: {left}." if left else ""
        return _waiting(
            attempt, Summary("it is being deleted, and no scheduler looks at it", "", advice)
        )
    assert attempt.held is not None
    summary = _held_summary(model, pod, attempt.held, attempt.explanations)
    if attempt.outcome.result is None:
        then = pending_summary(
            model, pod, attempt.outcome, attempt.verdicts, (), None, attempt.explanations
        )
        if then.sentence not in summary.sentence:
            summary = summary._replace(breakdown=f"Once that is solved: {then.sentence}")
    answer = _waiting(attempt, summary)
    suggestions = without_gates(model, pod) if suggest else ()
    if suggest and not pod.spec.scheduling_gates and attempt.outcome.result is None:
        once = one_cause_each(pod, attempt.verdicts, attempt.explanations)
        suggestions = find_suggestions(model, pod, once, attempt.explanations)
    return replace(answer, suggestions=suggestions, node=attempt.outcome.node_name)


def _waiting(attempt: _Attempt, summary: Summary) -> Explanation:
    held = attempt.held
    return Explanation(
        pod=pod_name(attempt.pod),
        verdict="pending",
        summary=summary.sentence,
        breakdown=summary.breakdown,
        advice=summary.advice,
        current_node=attempt.current,
        nodes=len(attempt.verdicts.nodes),
        feasible=sum(group.count for group in attempt.groups if not group.rejections),
        message=attempt.outcome.message if held is None else held.message,
        groups=attempt.groups,
    )


def _placed(model: ClusterModel, attempt: _Attempt, versus: str) -> Explanation:
    pod, result = attempt.pod, attempt.outcome.result
    assert result is not None
    table = ScoreTable(model.framework_of(pod), result)
    scores = table.best(_MOST_SCORES)
    sentence = placed_summary(
        result.node_name,
        attempt.current,
        scores,
        table.ties,
        table.margin,
        sum(group.count for group in attempt.groups if not group.rejections),
    )
    if not attempt.current:
        sentence = waiting_summary(model, pod, sentence)
    return Explanation(
        pod=pod_name(pod),
        verdict="fits",
        summary=sentence,
        node=result.node_name,
        current_node=attempt.current,
        nodes=len(attempt.verdicts.nodes),
        feasible=len(result.feasible),
        groups=attempt.groups,
        scores=scores,
        ties=table.ties,
        margin=table.margin,
        versus=table.versus(versus, attempt.groups) if versus else None,
    )


def _of_partial_view(pod: Pod, answer: Explanation) -> Explanation:
    """Correct the result for a pod that fits only because some pods could not be listed."""
    told = unschedulable_message(pod)
    if answer.verdict != "fits" or not told or pod.spec.node_name:
        return answer
    summary = (
        f"the scheduler said: {told} Which pods take the room cannot be worked out: you may read "
        f"those of namespace {pod.metadata.namespace}, which leave room on {answer.node}"
    )
    return replace(
        answer,
        verdict="pending",
        node="",
        summary=summary,
        advice="Ask for the right to list pods of all namespaces, or for a capture "
        "(kubesched capture).",
        scores=(),
    )


def _without_kinds(answer: Explanation, needed: Sequence[str]) -> Explanation:
    """Correct the result for a pod whose rules need kinds that could not be read.

    A rejection by the other rules stays valid. A node that the other rules accept may be rejected,
    and so may a node after a suggested change.
    """
    suggestions = tuple(replace(each, verified=False) for each in answer.suggestions)
    answer = replace(answer, suggestions=suggestions)
    if answer.verdict != "fits" or answer.current_node:
        return answer
    kinds, verb = listed(needed, len(needed)), "has" if len(needed) == 1 else "have"
    return replace(
        answer,
        verdict="unknown",
        node="",
        summary=f"it depends on {kinds}, which {verb} not been read (no permission to list, or "
        f"not in the dump). By the other rules it fits, and would go to {answer.node}",
        advice="Ask for the ClusterRole of docs/explain.md, or for a capture (kubesched capture). "
        "For a dump, `kubesched dump-command` prints the command that lists every kind.",
    )


def _without_nodes(model: ClusterModel, pod: Pod) -> Explanation:
    """Explain a pod for a user who may not list nodes, from the scheduler's last message."""
    ours = (pod.spec.scheduler_name or "default-scheduler") in model.frameworks
    if ours and (held := _held_back(model, pod)) is not None:
        explanations = PluginExplanations.of_framework(model.framework_of(pod))
        summary = _held_summary(model, pod, held, explanations)
        return Explanation(
            pod=pod_name(pod),
            verdict="pending",
            summary=summary.sentence,
            advice=summary.advice,
            message=held.message,
        )
    told = unschedulable_message(pod)
    said = f"the scheduler said: {told}" if told else "no scheduler has tried it yet"
    return Explanation(
        pod=pod_name(pod),
        verdict="pending",
        summary=f"you may not read nodes, so it cannot be worked out; {said}",
        advice="Ask for the right to list nodes, or for a capture (kubesched capture).",
    )


def _of_other_scheduler(model: ClusterModel, pod: Pod) -> Explanation:
    """Explain a pod of another scheduler."""
    name, known = pod.spec.scheduler_name, sorted(model.frameworks)
    near = nearest(name, known)
    hint = f"; did you mean {near!r}?" if near else ""
    others = ", ".join(map(repr, known))
    sentence = f"schedulerName is {name!r}, and this scheduler only places pods of {others}{hint}"
    suggestions = () if pod.spec.node_name else with_other_scheduler(model, pod, near or known[0])
    told = unschedulable_message(pod)
    if told:
        # A scheduler with that name is running: it wrote the condition.
        sentence = f"scheduler {name!r} has tried it, and said: {told.rstrip('.')}"
        advice = (
            f"Give the configuration of {name!r} with --config, and its plugins with --plugin, for "
            "the reasons of each node"
        )
    else:
        advice = f"Run a scheduler that is called {name!r}, or give it here with --config"
        if suggestions:
            advice += f"; or {suggestions[0].change}"
    current = pod.spec.node_name
    return Explanation(
        pod=pod_name(pod),
        verdict="fits" if current else "pending",
        summary=f"It runs on {current}; {sentence}" if current else sentence,
        advice=f"{advice}.",
        node=current,
        current_node=current,
        nodes=len(model.snapshot.nodes),
        suggestions=suggestions,
    )


def _held_summary(
    model: ClusterModel, pod: Pod, held: Status, explanations: PluginExplanations
) -> Summary:
    cause = held.causes[0] if held.causes else None
    rejected = RejectedNodes(
        model.objects, PodInfo(pod), model.snapshot.nodes, np.zeros(0, dtype=np.intp)
    )
    return held_summary(held, explanations.pre_enqueue_detail(held.plugin, rejected, cause))


def _held_back(model: ClusterModel, pod: Pod) -> Status | None:
    """Return the status of the PreEnqueue plugin that keeps the pod out of the queue, if any."""
    for plugin in model.framework_of(pod).pre_enqueue_plugins:
        status = plugin.pre_enqueue(pod)
        if not status.is_success:
            return status.blame(plugin.name)
    return None


def _unplaced(pod: Pod) -> Pod:
    return replace(
        pod,
        spec=replace(pod.spec, node_name=""),
        status=replace(pod.status, nominated_node_name=""),
    )
