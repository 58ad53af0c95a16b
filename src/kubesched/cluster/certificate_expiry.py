"""Deletion of old certificate signing requests, as the controller manager does.

A request is deleted an hour after it was denied, has failed or was approved, a day after its
creation if there was no decision, and when its certificate expires.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from kubesched.api import ApiError
from kubesched.api.plain_kinds import plain_type
from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import MINUTE, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

__all__ = ["CertificateRequestExpiry"]

log = get_logger(__name__)

Json = dict[str, Any]

_PERIOD_NS: Final = 60 * MINUTE
_DECIDED_NS: Final = 60 * MINUTE
_PENDING_NS: Final = 24 * 60 * MINUTE
_DECISIONS: Final = ("Approved", "Denied", "Failed")
_NOT_FOUND: Final = 404


class CertificateRequestExpiry:
    """Deletes old certificate signing requests from a store every hour."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._resource = store.catalog.by_type(
            plain_type("certificates.k8s.io/v1", "CertificateSigningRequest")
        )
        self._stop = StopSwitch()

    async def run(self) -> None:
        await self._stop.guard(self._expire_periodically())

    def stop(self) -> None:
        self._stop.set()

    async def _expire_periodically(self) -> None:
        while True:
            await self._clock.sleep(_PERIOD_NS)
            try:
                self.expire(self._clock.now_ns())
            except ApiError as error:
                log.warning("Could not delete old certificate requests", error=error)

    def expire(self, now_ns: int) -> None:
        """Delete the requests that are too old."""
        for record in list(self._store.collection(self._resource).objects.values()):
            if not _is_old(record.data, now_ns):
                continue
            metadata = record.data["metadata"]
            try:
                self._store.delete(self._resource, None, metadata["name"], now_ns)
            except ApiError as error:
                if error.code != _NOT_FOUND:
                    raise


def _is_old(request: Json, now_ns: int) -> bool:
    status = request.get("status") or {}
    conditions = status.get("conditions") or ()
    if not conditions and not status.get("certificate"):
        created = request["metadata"].get("creationTimestamp")
        return _is_before(created, now_ns - _PENDING_NS)
    decided = [each for each in conditions if each.get("type") in _DECISIONS]
    if any(_is_before(each.get("lastUpdateTime"), now_ns - _DECIDED_NS) for each in decided):
        return True
    return bool(decided) and _has_expired(status.get("certificate"), now_ns)


def _is_before(time: object, limit_ns: int) -> bool:
    try:
        return bool(time) and parse_time(str(time)) < limit_ns
    except ValueError:
        return False


def _has_expired(certificate: object, now_ns: int) -> bool:
    if not certificate:
        return False
    from kubesched.foundation.http.client_authority import expiry_ns

    try:
        return expiry_ns(base64.b64decode(str(certificate))) < now_ns
    except ValueError:
        return False
