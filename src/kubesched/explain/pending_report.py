"""All pending pods of a cluster or a workload, grouped by cause.

Pods of one shape have one cause, so each shape is explained once. Remedies are searched for one
pod of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.pod_facts import controller_of
from kubesched.api.time import parse_time
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.explain.explanation import Explanation, Suggestion
from kubesched.explain.rendering.result import Result
from kubesched.scheduler.plugins.helpers.wording import pod_name

__all__ = ["PendingCause", "PendingReport", "WaitingPodRow", "cause_of", "group_by_cause"]

_FITS: Final = "They fit, one by one. The scheduler will try them again, unless none runs for them."
# Remedies of further groups are not searched: each search runs the scheduler many times.
_MOST_ADVISED: Final = 20


class WaitingPodRow(Result, frozen=True, kw_only=True):
    """A pending pod and its age."""

    pod: str  # namespace/name
    owner: str = ""  # kind/name of its controller
    waiting_s: int | None = None  # None: the pod has no creation time


class PendingCause(Result, frozen=True, kw_only=True):
    """Pods that are pending for the same cause."""

    verdict: str  # of all its pods: pending, unknown or fits
    summary: str
    advice: str = ""
    pods: tuple[WaitingPodRow, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()  # for the first pod


class PendingReport(Result, frozen=True, kw_only=True):
    """All pending pods, the largest group first."""

    subject: str = ""  # the workload, as kind namespace/name; empty: the cluster
    pods: int = 0  # pods that have not finished
    pending: int = 0
    missing: int = 0  # the number of pods that the controller of the workload has not created
    note: str = ""  # why pods are missing, if known
    causes: tuple[PendingCause, ...] = ()
    unknown: tuple[str, ...] = ()  # kinds that could not be read
    partial: tuple[str, ...] = ()  # kinds of which only one namespace could be read


def group_by_cause(
    pods: Sequence[Pod],
    explain: Callable[[Pod, bool], Explanation],
    now_ns: int,
    *,
    suggest: bool,
) -> tuple[PendingCause, ...]:
    """Explain pending pods, grouped by cause.

    `explain` gets a pod, and whether to search for remedies.
    """
    by_shape: dict[bytes, tuple[str, str]] = {}
    groups: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        shape = _shape(pod)
        if shape not in by_shape:
            by_shape[shape] = _cause(pod, explain)
        groups.setdefault(by_shape[shape], []).append(pod)
    causes: list[PendingCause] = []
    for (verdict, summary), members in sorted(groups.items(), key=lambda each: -len(each[1])):
        found = PendingCause(
            verdict=verdict,
            summary=summary,
            pods=tuple(_row(pod, now_ns) for pod in members),
        )
        if suggest and verdict != "fits" and len(causes) < _MOST_ADVISED:
            try:
                answer = explain(members[0], True)
            except ExplainError:
                pass
            else:
                found = replace(found, advice=answer.advice, suggestions=answer.suggestions)
        causes.append(found)
    return tuple(causes)


def cause_of(pod: Pod, answer: Explanation) -> PendingCause:
    """Return the group for a pod that does not exist yet."""
    return PendingCause(
        verdict=answer.verdict,
        summary=answer.summary,
        advice=answer.advice,
        pods=(WaitingPodRow(pod=pod_name(pod)),),
        suggestions=answer.suggestions,
    )


def _cause(pod: Pod, explain: Callable[[Pod, bool], Explanation]) -> tuple[str, str]:
    """Return the verdict and the headline of a pod."""
    try:
        answer = explain(pod, False)
    except ExplainError as error:
        return "unknown", str(error)
    return answer.verdict, _FITS if answer.verdict == "fits" else answer.summary


def _shape(pod: Pod) -> bytes:
    """Return the fields that an explanation depends on.

    Volumes without claims are omitted, because their names differ between pods.
    """
    volumes = tuple(
        each
        for each in pod.spec.volumes
        if each.persistent_volume_claim is not None or each.ephemeral is not None
    )
    metadata, status = pod.metadata, pod.status
    return msgspec.json.encode(
        (
            metadata.namespace,
            metadata.labels,
            metadata.deletion_timestamp is not None,
            controller_of(pod),
            metadata.name if _has_claims(pod) else "",
            status.nominated_node_name,
            status.resource_claim_statuses,
            replace(pod.spec, volumes=volumes),
        )
    )


def _has_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or any(
        each.ephemeral is not None for each in pod.spec.volumes
    )


def _row(pod: Pod, now_ns: int) -> WaitingPodRow:
    controller = controller_of(pod)
    created = pod.metadata.creation_timestamp
    return WaitingPodRow(
        pod=pod_name(pod),
        owner="" if controller is None else f"{controller.kind}/{controller.name}",
        waiting_s=None if created is None else max(now_ns - parse_time(created), 0) // 10**9,
    )
