"""The first lines of an explanation: why a pod is pending and what would help, or its node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kubesched.api import PersistentVolumeClaim, Pod, StorageClass
from kubesched.explain.clusters.cluster_model import ClusterModel, SearchOutcome
from kubesched.explain.explanation import NodeScore, Preemption, Suggestion
from kubesched.explain.headline import Headline, find_headline
from kubesched.explain.plugin_explanations import PluginExplanations
from kubesched.explain.verdicts import AllVerdicts, one_cause_each
from kubesched.framework import Detail, PodInfo, Status
from kubesched.framework.causes import SchedulingGated
from kubesched.framework.pod_groups import group_name_of
from kubesched.scheduler.plugins.helpers.volume_claims import (
    SELECTED_NODE,
    claim_class,
    claim_names,
)
from kubesched.scheduler.plugins.helpers.wording import listed, plural, pod_name

__all__ = [
    "Summary",
    "held_summary",
    "lost_summary",
    "not_running_summary",
    "pending_summary",
    "placed_summary",
    "unschedulable_message",
    "waiting_summary",
]


_NOTHING_HELPS = "No change helps: neither one change nor two together make it fit."
_ADVISED = 2
_SHORT_COMMAND = 40


class Summary(NamedTuple):
    """The headline, the number of nodes that each reason excludes, and the recommended change."""

    sentence: str
    breakdown: str = ""
    advice: str = ""


def pending_summary(
    model: ClusterModel,
    pod: Pod,
    outcome: SearchOutcome,
    verdicts: AllVerdicts,
    suggestions: Sequence[Suggestion],
    preemption: Preemption | None,
    explanations: PluginExplanations,
) -> Summary:
    """Summarize why the pod is pending."""
    if not len(verdicts.nodes):
        return Summary("there are no nodes", "", "Add a node.")
    making_room = _preemption_in_progress(model, pod)
    advice = _advice(suggestions, preemption)
    if making_room:
        return making_room
    headline = find_headline(
        model.objects, PodInfo(pod), one_cause_each(pod, verdicts, explanations), explanations
    )
    if outcome.diagnosis is None and not any(each.is_about_pod for each in verdicts.by_plugin):
        headline = Headline(f"the attempt ends in an error: {outcome.message}")
    elif not (verdicts.rejection_counts() > 0).all() and outcome.diagnosis is not None:
        headline = _reserved_for_nominated(model, verdicts, headline)
    return Summary(headline.sentence, headline.breakdown, advice)


def _reserved_for_nominated(
    model: ClusterModel, verdicts: AllVerdicts, other: Headline
) -> Headline:
    """Return the headline for nodes whose free room is reserved for nominated pods."""
    free = [
        name
        for name, count in zip(
            verdicts.nodes.names, verdicts.rejection_counts().tolist(), strict=True
        )
        if not count and model.nominator.nominated_pods(name)
    ]
    if not free:
        return other
    owners = [pod_name(info.pod) for name in free for info in model.nominator.nominated_pods(name)]
    room = f"the room on {listed(free)} is kept for {listed(owners)}, nominated there"
    return Headline(room, other.breakdown)


def _preemption_in_progress(model: ClusterModel, pod: Pod) -> Summary | None:
    """Summarize a preemption whose victims are still terminating, if there is one."""
    nominated = pod.status.nominated_node_name
    node = model.snapshot.get(nominated) if nominated else None
    if node is None:
        return None
    leaving = sorted(
        pod_name(each.pod) for each in node.pods if each.pod.metadata.deletion_timestamp is not None
    )
    if not leaving:
        return None
    they = "it to end" if len(leaving) == 1 else "them to end"
    return Summary(
        f"preemption makes room for it on {nominated}: {plural(len(leaving), 'pod')} there "
        f"{'is' if len(leaving) == 1 else 'are'} still terminating ({listed(leaving)})",
        "",
        f"Wait for {they}; it is placed then. If it takes too long, look at "
        f"terminationGracePeriodSeconds, finalizers and the kubelet of {nominated}.",
    )


def held_summary(status: Status, detail: Detail) -> Summary:
    """Describe why the pod is not in the active queue: a status of PreEnqueue, and its detail."""
    cause = status.causes[0] if status.causes else None
    if isinstance(cause, SchedulingGated):
        word, it = ("gate", "it") if len(cause.gates) == 1 else ("gates", "them")
        return Summary(
            f"held back by the scheduling {word} {listed(cause.gates)}; no scheduler looks at it",
            "",
            f"The component that set the {word} has to remove {it} (spec.schedulingGates).",
        )
    if detail.sentence:
        return Summary(f"held back before scheduling: {detail.sentence}", "", detail.advice)
    return Summary(f"held back before scheduling by {status.plugin}: {status.message}")


def _advice(suggestions: Sequence[Suggestion], preemption: Preemption | None) -> str:
    """Return the smallest changes to the pod and to the cluster, on one line."""
    if preemption is not None and preemption.possible:
        victims = listed(preemption.victims) or "no pod"
        against = listed(preemption.budgets_violated)
        budgets = f", against budget {against}" if against else ""
        return (
            f"Nothing to do: preemption will make room on {preemption.node} "
            f"(evicts {victims}{budgets})."
        )
    kinds = ["pod", "cluster", "preemption"]
    if preemption is not None and preemption.blocked_by_policy:
        kinds = ["preemption", "pod", "cluster"]
    firsts = [next((each for each in suggestions if each.kind == kind), None) for kind in kinds]
    chosen = [each for each in firsts if each is not None][:_ADVISED]
    if not chosen:
        return _NOTHING_HELPS
    chosen.sort(key=lambda each: each.size)
    return f"To fix it: {', or '.join(map(_change_with_command, chosen))}."


def _change_with_command(suggestion: Suggestion) -> str:
    # A deletion is only shown with its consequences, in the list of suggestions.
    is_shown = not suggestion.command.startswith("kubectl delete ")
    is_short = is_shown and 0 < len(suggestion.command) <= _SHORT_COMMAND
    return f"{suggestion.change} ({suggestion.command})" if is_short else suggestion.change


def unschedulable_message(pod: Pod) -> str:
    """Return the message of the pod's condition PodScheduled; empty if it has not failed."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""


def waiting_summary(model: ClusterModel, pod: Pod, sentence: str) -> str:
    """Add why a pod that fits may still be pending."""
    if pod.metadata.creation_timestamp is None:
        return sentence
    if provisioning := _provisioning(model, pod):
        return provisioning
    if told := unschedulable_message(pod):
        if group := group_name_of(pod):
            return (
                f"{sentence}. A scheduler last said {told!r}. Its pod group is placed together: "
                f"kubesched explain podgroup {pod.metadata.namespace}/{group} says what that needs"
            )
        return (
            f"{sentence}. A scheduler last said {told!r}; it is tried again after the next change "
            "that may help, or within 5 minutes"
        )
    name = pod.spec.scheduler_name or "default-scheduler"
    return f"{sentence}. No scheduler has tried it yet: is one running for schedulerName {name!r}?"


def _provisioning(model: ClusterModel, pod: Pod) -> str:
    """Say which volume a pod waits for after a scheduler has chosen its node; empty if none."""
    for name in claim_names(pod):
        claim = model.objects.get(PersistentVolumeClaim, name, pod.metadata.namespace)
        if claim is None or claim.spec.volume_name:
            continue
        node, class_name = claim.metadata.annotations.get(SELECTED_NODE), claim_class(claim)
        found = model.objects.get(StorageClass, class_name)
        if node and found is not None:
            return (
                f"It fits, and a scheduler has chosen {node} for it. It waits until provisioner "
                f"{found.provisioner} of class {class_name} has made the volume of claim {name}, "
                "and is tried again after 10 minutes (bindTimeoutSeconds): kubectl describe pvc "
                f"-n {pod.metadata.namespace} {name}"
            )
    return ""


def lost_summary(pod: Pod) -> str:
    """Summarize a pod whose node was deleted: it cannot run."""
    name = pod.spec.node_name
    return (
        f"It has been placed on {name}, and there is no such node any more. It cannot run, and is "
        "not placed again: its creator has to create another pod (pods of deleted nodes are "
        "deleted after a while)"
    )


def not_running_summary(pod: Pod) -> str:
    """Return why a placed pod does not run; empty if its status gives no reason."""
    if pod.status.phase not in ("", "Pending"):
        return ""
    reasons = []
    for each in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = each.state.waiting if each.state is not None else None
        if waiting is not None and waiting.reason:
            text = f": {waiting.message}" if waiting.message else ""
            reasons.append(f"container {each.name}: {waiting.reason}{text}")
    if not reasons and pod.status.phase != "Pending":
        return ""
    if not reasons:
        ready = {each.type: each for each in pod.status.conditions}
        late = ready.get("PodReadyToStartContainers")
        why = "its kubelet has not reported its containers yet"
        if late is not None and late.status == "False":
            why = "its sandbox, network or volumes are not set up yet"
        reasons.append(why)
    return (
        f"It has been placed on {pod.spec.node_name}, and does not run yet. That is up to the "
        f"node, not to the scheduler: {'; '.join(reasons)}"
    )


def placed_summary(
    node: str, current: str, scores: Sequence[NodeScore], ties: int, margin: int, feasible: int
) -> str:
    """Summarize the chosen node and its lead over the next nodes."""
    points = f" with {scores[0].total} points" if scores and scores[0].plugins else ""
    if ties > 1:
        close = f"; {ties} nodes are equally good"
    elif margin:
        close = f", {margin} ahead of the next"
    else:
        close = "; it is the only node that fits" if feasible == 1 else ""
    if not current:
        return f"It fits: it would go to {node}{points}{close}"
    if current == node:
        return f"It runs on {current}, which is where it would go today as well{points}{close}"
    return f"It runs on {current}; placed today it would go to {node}{points}{close}"
