"""Invariants of the server: a valid lease keeps its holder, and stale writes are refused.

They are checked on the store's history, for all clients.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from kubesched.cluster.apiserver.store.stored_records import StoredChange
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from kubesched.foundation.util.clock import SECOND, current_clock

__all__ = ["ServerInvariants"]

# The highest rate of a clock in the plans, compared to virtual time.
_FASTEST = 1.06


class ServerInvariants:
    """Checks changes and requests, and reports those that break an invariant."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._clock = current_clock()
        self._renewed_ns = 0
        self._before: dict[str, str] = {}  # version of an object -> the version before it

    def on_change(self, change: StoredChange) -> None:
        if change.previous is None or change.type == "DELETED":
            return
        old, new = change.previous.data, change.record.data
        self._before[new["metadata"]["resourceVersion"]] = old["metadata"]["resourceVersion"]
        if change.record.resource.group_resource == "leases.coordination.k8s.io":
            before, now = old["spec"].get("holderIdentity"), new["spec"].get("holderIdentity")
            waited_ns = self._clock.monotonic_ns() - self._renewed_ns
            lasts_ns = old["spec"]["leaseDurationSeconds"] * SECOND
            if before and now and before != now and waited_ns * _FASTEST < lasts_ns:
                waited = f"{waited_ns / SECOND:.1f} of {lasts_ns / SECOND:.0f} s"
                self._report(f"{now} takes the lease from {before} after {waited}")
            self._renewed_ns = self._clock.monotonic_ns()

    def on_request_applied(self, request: OutgoingRequest, answer: ServerResponse) -> None:
        """Check that a PUT that took effect was based on the stored version."""
        if request.method != "PUT" or answer.status >= 300:
            return
        based_on = json.loads(request.body)["metadata"].get("resourceVersion")
        version = json.loads(answer.body)["metadata"]["resourceVersion"]
        if based_on and version != based_on and self._before.get(version) != based_on:
            self._report(f"{request.target} was overwritten by a write based on {based_on}")
