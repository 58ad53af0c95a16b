"""The eviction subresource: PodDisruptionBudgets allow or refuse an eviction."""

from __future__ import annotations

from typing import Any

from kubesched.api.labels import Selector
from kubesched.api.meta import StatusCause
from kubesched.api.policy import PodDisruptionBudget
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.stored_records import Record

__all__ = ["admit_eviction"]

Json = dict[str, Any]

_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)
# The Retry-After of a refusal because the controller has not yet processed the budget. A refusal
# because the budget is used up has none: it is unknown when the budget allows an eviction again,
# and a client would retry forever.
_RETRY_SECONDS = 10


def admit_eviction(
    store: Store, namespace: str, name: str, now_ns: int, *, dry_run: bool = False
) -> None:
    """Refuse an eviction that a budget does not allow; otherwise count it in the budget.

    A budget allows every eviction while no controller has written its status.

    Raises:
        ApiError: 404; 429 if the budget is used up; 500 if the pod has several budgets.
    """
    pods = store.catalog.by_url("", "v1", "pods")
    pod = store.get(pods, namespace, name)
    budgets = [] if _is_exempt(pod.data) else _budgets(store, pod)
    if len(budgets) > 1:
        raise api_errors.unknown_failure(_SEVERAL)
    for budget in budgets:
        if not _is_ready(pod.data) and _allows_unready_eviction(budget.data):
            continue
        _check_budget(budget.data)
        if not dry_run:
            _count_disruption(store, budget, name, now_ns)
    if not dry_run and "deletionTimestamp" not in pod.data["metadata"]:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": format_timestamp(now_ns),
        }
        patch = {"status": {"conditions": [condition]}}
        store.patch(pods, namespace, name, patch, now_ns, subresource="status")


def _is_exempt(pod: Json) -> bool:
    """Whether budgets do not apply to a pod: it does not run, or it is being deleted."""
    phase = pod.get("status", {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: Json) -> bool:
    return any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in pod.get("status", {}).get("conditions", ())
    )


def _budgets(store: Store, pod: Record) -> list[Record]:
    labels = pod.data["metadata"].get("labels", {})
    found = store.list(
        store.catalog.by_type(PodDisruptionBudget), pod.data["metadata"]["namespace"]
    )
    return [
        record
        for record in found.records
        if record.typed.spec.selector is not None
        and Selector.from_label_selector(record.typed.spec.selector).matches(labels)
    ]


def _allows_unready_eviction(budget: Json) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _check_budget(budget: Json) -> None:
    status, metadata = budget.get("status", {}), budget["metadata"]
    if "disruptionsAllowed" not in status:
        return
    name = metadata["name"]
    retry_seconds = 0
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        text = f"The disruption budget {name} is still being processed by the server."
        retry_seconds = _RETRY_SECONDS
    elif status["disruptionsAllowed"] <= 0:
        text = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
    else:
        return
    cause = StatusCause(reason="DisruptionBudget", message=text)
    raise api_errors.too_many_requests(_VIOLATED, retry_seconds, causes=(cause,))


def _count_disruption(store: Store, budget: Record, pod: str, now_ns: int) -> None:
    status = budget.data.get("status", {})
    if "disruptionsAllowed" not in status:
        return
    patch = {
        "status": {
            "disruptionsAllowed": status["disruptionsAllowed"] - 1,
            "disruptedPods": {pod: format_timestamp(now_ns)},
        }
    }
    metadata = budget.data["metadata"]
    store.patch(
        budget.resource,
        metadata["namespace"],
        metadata["name"],
        patch,
        now_ns,
        patch_type="merge",
        subresource="status",
    )
