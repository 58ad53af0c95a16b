"""Whether a pod may be evicted: budgets have their say."""

from __future__ import annotations

from kubesched.api.labels import Selector
from kubesched.api.policy import PodDisruptionBudget
from kubesched.apiserver.rules import api_errors
from kubesched.apiserver.store.object_store import Store

__all__ = ["check_eviction"]

_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_SECONDS = 10


def check_eviction(store: Store, namespace: str, name: str) -> None:
    """Refuse an eviction that a budget does not allow.

    A budget that nobody keeps up to date (its status was never written) allows everything.

    Raises:
        ApiError: 404, or 429 for a budget that is used up.
    """
    pods = store.catalog.by_url("", "v1", "pods")
    pod = store.get(pods, namespace, name)
    if pod.data.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return
    labels = pod.data["metadata"].get("labels", {})
    budgets = store.list(store.catalog.by_type(PodDisruptionBudget), namespace)
    for record in budgets.records:
        budget: PodDisruptionBudget = record.typed
        selector = budget.spec.selector
        if selector is None or not Selector.from_label_selector(selector).matches(labels):
            continue
        status = record.data.get("status", {})
        if "disruptionsAllowed" in status and status["disruptionsAllowed"] <= 0:
            raise api_errors.too_many_requests(_VIOLATED, _RETRY_SECONDS)
