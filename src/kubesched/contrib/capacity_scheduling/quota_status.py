"""Writes the used amounts into the status of ElasticQuotas."""

from __future__ import annotations

from kubesched.contrib.amounts import as_quantity
from kubesched.contrib.capacity_scheduling.elastic_quotas import (
    ELASTIC_QUOTA_KIND,
    Amounts,
    ElasticQuotas,
    Quota,
)
from kubesched.contrib.status_loop import StatusLoop
from kubesched.framework import Handle

__all__ = ["QuotaStatusLoop", "used_of"]


def used_of(quota: Quota, used: Amounts) -> dict[str, str]:
    """Return the used amounts of the resources that a quota lists, as quantities."""
    return {name: as_quantity(name, used.get(name, 0)) for name in sorted({*quota.min, *quota.max})}


class QuotaStatusLoop:
    """Updates the status of a changed quota if it differs from the usage."""

    def __init__(self, quotas: ElasticQuotas, handle: Handle) -> None:
        self._quotas, self._handle = quotas, handle
        self._loop = StatusLoop(handle, "the ElasticQuota of", self._update)

    async def run_once(self) -> None:
        """Run until cancelled; further calls return at once."""
        self._quotas.on_change.append(self._loop.mark)
        try:
            for quota in self._quotas:
                self._loop.mark(quota.namespace)
            await self._loop.run_once()
        finally:
            self._quotas.on_change.remove(self._loop.mark)

    async def _update(self, namespace: str) -> None:
        quota, kind = self._quotas.of(namespace), ELASTIC_QUOTA_KIND.type
        if quota is None:
            return
        stored = self._handle.lister(kind).get(quota.name, namespace)
        used = used_of(quota, self._quotas.used(namespace))
        if stored is None or stored.status.get("used", {}) == used:
            return
        # A resource that the quota no longer lists is removed.
        gone = dict.fromkeys(stored.status.get("used", {}).keys() - used.keys())
        await self._handle.api.patch(
            kind,
            quota.name,
            namespace,
            {"status": {"used": {**used, **gone}}},
            patch_type="merge",
            subresource="status",
        )
