"""The pod failure policy and the success policy of a Job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kubesched.api import Pod
from kubesched.api.pod import ContainerStatus
from kubesched.cluster.controllers.job_indexes import indexes_from

__all__ = ["FailureVerdict", "failure_verdict", "success_rule"]

Json = Mapping[str, Any]


class FailureVerdict(NamedTuple):
    """What a Job does about a failed pod."""

    action: Literal["Count", "Ignore", "FailJob", "FailIndex"] = "Count"
    message: str = ""


def failure_verdict(spec: Json, pod: Pod) -> FailureVerdict:
    """Apply the first matching rule of the pod failure policy; without a match it counts."""
    for number, rule in enumerate(spec.get("podFailurePolicy", {}).get("rules", ())):
        action = rule["action"]
        if (codes := rule.get("onExitCodes")) is not None:
            found = _matching_exit(codes, pod)
            if found is not None:
                code = found.state.terminated.exit_code if found.state.terminated else 0
                return FailureVerdict(
                    action,
                    f"Container {found.name} for pod {_key(pod)} failed with exit code {code} "
                    f"matching {action} rule at index {number}",
                )
        elif (kind := _matching_condition(rule.get("onPodConditions", ()), pod)) is not None:
            return FailureVerdict(
                action,
                f"Pod {_key(pod)} has condition {kind} matching {action} rule at index {number}",
            )
    return FailureVerdict()


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _matching_exit(codes: Json, pod: Pod) -> ContainerStatus | None:
    wanted = codes.get("containerName")
    values = codes.get("values", ())
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0 or (wanted and wanted != status.name):
            continue
        if (ended.exit_code in values) == (codes.get("operator") == "In"):
            return status
    return None


def _matching_condition(patterns: Sequence[Json], pod: Pod) -> str | None:
    statuses = {each.type: each.status for each in pod.status.conditions}
    for pattern in patterns:
        if statuses.get(pattern["type"]) == pattern.get("status", "True"):
            kind: str = pattern["type"]
            return kind
    return None


def success_rule(spec: Json, succeeded: set[int]) -> int | None:
    """Return the number of the first rule of the success policy that the indexes satisfy."""
    for number, rule in enumerate(spec.get("successPolicy", {}).get("rules", ())):
        named = rule.get("succeededIndexes")
        count = rule.get("succeededCount")
        among = succeeded if named is None else succeeded & indexes_from(named)
        if count is not None:
            if len(among) >= count:
                return number
        elif named is not None and among == indexes_from(named):
            return number
    return None
