"""The HorizontalPodAutoscaler: it changes the replicas of a workload with the use of its pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kubesched.api import (
    Deployment,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from kubesched.api.base import ApiObject
from kubesched.api.labels import Selector
from kubesched.api.plain_kinds import plain_type
from kubesched.api.quantity import Quantity, parse_quantity
from kubesched.api.time import format_time
from kubesched.cluster.apiserver.http.metrics_api import PodUsage
from kubesched.cluster.controllers.adoption import selector_of
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Patch,
    RecordEvent,
    conditions_with,
    status_patch,
)
from kubesched.cluster.controllers.replica_calculation import (
    NoMetricsError,
    Proposal,
    ResourceTarget,
    Tolerance,
    propose_replicas,
)
from kubesched.cluster.controllers.scaling_limits import Limited, ScalingHistory, limit_replicas
from kubesched.cluster.controllers.triggers import OwnChange
from kubesched.foundation.util.clock import SECOND

__all__ = ["AUTOSCALERS", "PodAutoscalers"]

Json = Mapping[str, Any]

AUTOSCALERS: Final = plain_type("autoscaling/v2", "HorizontalPodAutoscaler")
# The time between two decisions.
SYNC_NS: Final = 15 * SECOND
_NANO: Final = 10**9
_SCALABLE: Final[dict[tuple[str, str], type[ApiObject]]] = {
    ("apps", "Deployment"): Deployment,
    ("apps", "ReplicaSet"): ReplicaSet,
    ("apps", "StatefulSet"): StatefulSet,
    ("", "ReplicationController"): ReplicationController,
}
_RESOURCES: Final = ("cpu", "memory")


class _Metric(NamedTuple):
    """The proposal of one metric of an autoscaler."""

    proposal: Proposal
    status: dict[str, Any]
    name: str


class _Decision(NamedTuple):
    """What an autoscaler does, and the parts of its status that explain it."""

    desired: int
    conditions: list[dict[str, Any]]
    metrics: list[dict[str, Any]] | None = None
    # The reason for the change, as in the event.
    reason: str = ""
    events: tuple[tuple[str, str], ...] = ()


class PodAutoscalers:
    """The autoscalers of a cluster, with their recommendations and changes."""

    def __init__(self, usage: PodUsage | None) -> None:
        """`usage` returns what a running pod uses; None if there are no metrics."""
        self._usage = usage
        # By uid of an autoscaler.
        self._histories: dict[str, ScalingHistory] = {}
        self._last_ns: dict[str, int] = {}

    def controller(self) -> Controller:
        return Controller(
            "horizontal-pod-autoscaler",
            AUTOSCALERS,
            self.plan,
            triggers=(OwnChange(AUTOSCALERS, _is_new),),
        )

    def plan(self, objects: ObjectIndex, subject: Any, document: Json, now_ns: int) -> ActionPlan:
        """Decide how many replicas the target of an autoscaler has."""
        metadata = subject.metadata
        if metadata.deletion_timestamp is not None:
            self._histories.pop(metadata.uid, None)
            self._last_ns.pop(metadata.uid, None)
            return ActionPlan()
        due_ns = self._last_ns.get(metadata.uid, -SYNC_NS) + SYNC_NS
        if now_ns < due_ns:
            return ActionPlan(again_ns=due_ns)
        self._last_ns[metadata.uid] = now_ns
        history = self._histories.setdefault(metadata.uid, ScalingHistory())
        spec = document["spec"]
        target = _target(objects, spec["scaleTargetRef"], metadata.namespace)
        now = format_time(now_ns)
        if target is None:
            reference = spec["scaleTargetRef"]
            text = (
                "the HPA controller was unable to get the target's current scale: "
                f'{reference.get("kind", "")} "{reference.get("name", "")}" not found'
            )
            failed = _condition("AbleToScale", "False", "FailedGetScale", text)
            status = _status(document, [failed], now)
            event = RecordEvent(subject, "FailedGetScale", text, warning=True)
            actions: list[Action] = [event, *status_patch(subject, document, status)]
            return ActionPlan(actions, again_ns=now_ns + SYNC_NS)
        current = _replicas(objects, target)
        decision = self._decide(objects, subject, spec, target, current, history, now_ns)
        actions = [RecordEvent(subject, *each, warning=True) for each in decision.events]
        status = _status(document, decision.conditions, now)
        status |= {"currentReplicas": _counted(target), "desiredReplicas": decision.desired}
        if decision.metrics is not None:
            status["currentMetrics"] = decision.metrics
        if decision.desired != current:
            actions.append(Patch(target, {"spec": {"replicas": decision.desired}}))
            text = f"New size: {decision.desired}; reason: {decision.reason}"
            actions.append(RecordEvent(subject, "SuccessfulRescale", text))
            status["lastScaleTime"] = now
            history.record(current, decision.desired, now_ns, _longest_period(spec))
        return ActionPlan(
            [*actions, *status_patch(subject, document, status)], again_ns=now_ns + SYNC_NS
        )

    def _decide(
        self,
        objects: ObjectIndex,
        subject: Any,
        spec: Json,
        target: Any,
        current: int,
        history: ScalingHistory,
        now_ns: int,
    ) -> _Decision:
        least = 1 if spec.get("minReplicas") is None else spec["minReplicas"]
        most = spec["maxReplicas"]
        found = _condition(
            "AbleToScale",
            "True",
            "SucceededGetScale",
            "the HPA controller was able to get the target's current scale",
        )
        if not current and least:
            text = "scaling is disabled since the replica count of the target is zero"
            disabled = _condition("ScalingActive", "False", "ScalingDisabled", text)
            return _Decision(0, [found, disabled])
        for exceeds, bound, name in (
            (current > most, most, "above Spec.MaxReplicas"),
            (current < least, least, "below Spec.MinReplicas"),
        ):
            if exceeds:
                able = _rescaled(bound)
                return _Decision(bound, [able], reason=f"Current number of replicas {name}")
        try:
            metrics = self._measure(objects, subject, spec, target, current, now_ns)
        except _FailedMetricsError as failure:
            inactive = _condition("ScalingActive", "False", failure.reason, str(failure))
            events = (
                (failure.reason, failure.first),
                ("FailedComputeMetricsReplicas", str(failure)),
            )
            return _Decision(current, [found, inactive], failure.measured, events=events)
        return _chosen(metrics, spec, current, (least, most), history, now_ns)

    def _measure(
        self,
        objects: ObjectIndex,
        subject: Any,
        spec: Json,
        target: Any,
        current: int,
        now_ns: int,
    ) -> list[_Metric]:
        """Return the proposal of each metric. Raises _FailedMetricsError."""
        selector: Selector = selector_of(target)
        namespace = subject.metadata.namespace
        pods = [
            each
            for each in objects.within(Pod, namespace)
            if selector.matches(each.metadata.labels)
        ]
        used = {each.metadata.name: self._used(each, now_ns) for each in pods}
        found: list[_Metric] = []
        failures: list[tuple[str, str]] = []
        declared = spec.get("metrics") or ()
        for metric in declared:
            try:
                found.append(_answer(metric, spec, pods, used, current, now_ns))
            except NoMetricsError as error:
                kind = metric.get("type", "")
                failures.append((f"FailedGet{kind}Metric", str(error)))
        highest = max((each.proposal.replicas for each in found), default=0)
        if failures and (not found or highest < current):
            raise _FailedMetricsError(failures, len(declared), [each.status for each in found])
        return found

    def _used(self, pod: Pod, now_ns: int) -> Mapping[str, tuple[int, int]]:
        return {} if self._usage is None else self._usage(pod, now_ns)


class _FailedMetricsError(Exception):
    """No number can be computed from the metrics of an autoscaler."""

    def __init__(
        self, failures: Sequence[tuple[str, str]], count: int, measured: list[dict[str, Any]]
    ) -> None:
        self.reason, self.first = failures[0]
        self.measured = measured
        super().__init__(
            f"invalid metrics ({len(failures)} invalid out of {count}), first error is: "
            f"{self.first}"
        )


def _chosen(
    metrics: Sequence[_Metric],
    spec: Json,
    current: int,
    bounds: tuple[int, int],
    history: ScalingHistory,
    now_ns: int,
) -> _Decision:
    """Return the highest proposal within all limits."""
    best = max(metrics, key=lambda each: each.proposal.replicas)
    wanted = best.proposal.replicas
    active = _condition(
        "ScalingActive",
        "True",
        "ValidMetricFound",
        f"the HPA was able to successfully calculate a replica count from {best.name}",
    )
    limits: Limited = limit_replicas(wanted, current, bounds, spec.get("behavior"), history, now_ns)
    able = _condition("AbleToScale", "True", *limits.able)
    if limits.replicas != current:
        able = _rescaled(limits.replicas)
    limited = _condition("ScalingLimited", *limits.limited)
    reason = ""  # of an earlier recommendation
    if wanted != current:
        reason = f"{best.name} above target" if wanted > current else "All metrics below target"
    shown = [each.status for each in metrics]
    return _Decision(limits.replicas, [able, active, limited], shown, reason)


def _answer(
    metric: Json,
    spec: Json,
    pods: Sequence[Pod],
    used: Mapping[str, Mapping[str, tuple[int, int]]],
    current: int,
    now_ns: int,
) -> _Metric:
    """Return the proposal of one metric. Raises NoMetricsError."""
    kind = metric.get("type", "")
    source = {"Resource": "resource", "ContainerResource": "containerResource"}.get(kind)
    if source is None:
        raise NoMetricsError(
            f"unable to get {kind.lower()} metric: no custom metrics API and no external metrics "
            "API is registered"
        )
    declared = metric[source]
    resource, wanted = declared["name"], declared["target"]
    if resource not in _RESOURCES:
        text = f"unable to get metrics for resource {resource}: no metrics returned"
        raise NoMetricsError(f"{text} from resource metrics API")
    factor = 1 if resource == "cpu" else _NANO
    index = _RESOURCES.index(resource)
    amounts = {
        name: {container: each[index] * factor for container, each in containers.items()}
        for name, containers in used.items()
        if containers
    }
    utilization = wanted.get("averageUtilization")
    average = 0 if utilization is not None else parse_quantity(wanted["averageValue"]).nanos
    container = declared.get("container", "")
    proposal = propose_replicas(
        ResourceTarget(resource, container, utilization, average),
        pods,
        amounts,
        current,
        now_ns,
        _tolerance(spec),
    )
    value = _quantity(resource, proposal.average_nanos)
    shown: dict[str, Any] = {"averageValue": value}
    name = f"{resource} resource"
    if utilization is not None:
        shown["averageUtilization"] = proposal.utilization
        name += " utilization (percentage of request)"
    if container:
        name = f"{resource} container resource utilization (percentage of request)"
    state = {"name": resource, "current": shown}
    if container:
        state["container"] = container
    return _Metric(proposal, {"type": kind, source: state}, name)


def _quantity(resource: str, nanos: int) -> str:
    if resource == "cpu":
        return str(Quantity.from_milli(-(-nanos // 10**6)))
    return str(nanos // _NANO)


def _tolerance(spec: Json) -> Tolerance:
    behavior = spec.get("behavior") or {}

    def part(name: str) -> float:
        text = (behavior.get(name) or {}).get("tolerance")
        return 0.1 if text is None else parse_quantity(text).nanos / _NANO

    return Tolerance(part("scaleDown"), part("scaleUp"))


def _longest_period(spec: Json) -> int:
    """Return the longest period of the policies of an autoscaler, in seconds."""
    behavior = spec.get("behavior") or {}
    return max(
        (
            policy.get("periodSeconds", 0)
            for rules in behavior.values()
            for policy in (rules or {}).get("policies") or ()
        ),
        default=0,
    )


def _rescaled(replicas: int) -> dict[str, Any]:
    text = f"the HPA controller was able to update the target scale to {replicas}"
    return _condition("AbleToScale", "True", "SucceededRescale", text)


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _status(document: Json, conditions: Sequence[dict[str, Any]], now: str) -> dict[str, Any]:
    stored = document.get("status", {}).get("conditions") or ()
    return {"conditions": conditions_with(stored, conditions, now)}


def _target(objects: ObjectIndex, reference: Json, namespace: str) -> Any | None:
    group = reference.get("apiVersion", "").rpartition("/")[0]
    kind = _SCALABLE.get((group, reference.get("kind", "")))
    return None if kind is None else objects.find(kind, namespace, reference.get("name", ""))


def _replicas(objects: ObjectIndex, target: Any) -> int:
    kind, metadata = type(target), target.metadata
    document = objects.document(kind, metadata.namespace, metadata.name)
    replicas = None if document is None else document["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def _counted(target: Any) -> int:
    return int(getattr(target.status, "replicas", 0))


def _is_new(subject: Any, before: Any | None) -> bool:
    """Whether an autoscaler is new. A change of its spec applies at the next decision."""
    return before is None or before.metadata.uid != subject.metadata.uid
