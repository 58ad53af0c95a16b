"""The candidacy of a replica in a coordinated election (docs/reference/02 §7.12).

The API server elects the leader among LeaseCandidates. It pings a candidate by setting `pingTime`,
and the candidate responds by setting `renewTime`.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

import msgspec

from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.meta import ObjectMeta
from kubesched.api.plain_kinds import LeaseCandidate
from kubesched.api.time import format_micro_time, parse_time
from kubesched.errors import KubeschedError
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.informer_backoff import jitter
from kubesched.foundation.util.clock import MINUTE, SECOND, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

__all__ = ["CandidateDescription", "LeaseCandidateRenewer"]

log = get_logger(__name__)

_NAMESPACE: Final = "kube-system"

_PERIOD_NS: Final = 5 * MINUTE
_FIRST_DELAY_NS: Final = 1 * SECOND
_LONGEST_DELAY_NS: Final = 1 * MINUTE


class CandidateDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate: its name, the lease, and the versions by which the server chooses."""

    identity: str
    lease_name: str
    binary_version: str
    emulation_version: str
    strategy: str = "OldestEmulationVersion"


class LeaseCandidateRenewer:
    """A component that creates the candidate, renews it, and answers pings."""

    def __init__(
        self, api: ApiAccess, clock: Clock, random: random.Random, description: CandidateDescription
    ) -> None:
        self._api, self._clock, self._random = api, clock, random
        self._description = description
        self._informer: SharedInformer[LeaseCandidate] = SharedInformer(
            api,
            LeaseCandidate,
            clock,
            random,
            field_selector=f"metadata.name={description.identity}",
            namespace=_NAMESPACE,
        )
        self._informer.add_handler(on_update=self._updated)
        self._pinged = asyncio.Event()
        self._stop = StopSwitch()

    @property
    def has_synced(self) -> bool:
        """Whether the candidates have been listed once."""
        return self._informer.has_synced

    async def run(self) -> None:
        """Renew the candidate until `stop`."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run(), name="lease candidate informer")
            try:
                await self._stop.guard(self._renew_for_ever())
            finally:
                self._informer.stop()

    def stop(self) -> None:
        self._stop.set()

    def _updated(self, _old: LeaseCandidate, new: LeaseCandidate) -> None:
        if new.metadata.name == self._description.identity and _is_pinged(new):
            self._pinged.set()

    async def _renew_for_ever(self) -> None:
        await self._informer.wait_for_sync()
        delay_ns = _FIRST_DELAY_NS
        while True:
            self._pinged.clear()
            try:
                await self._renew()
            except ApiError as exc:
                log.error("Failed to renew lease candidate", exc=exc, name=self._name)
                await self._clock.sleep(jitter(delay_ns, 1.0, self._random))
                delay_ns = min(2 * delay_ns, _LONGEST_DELAY_NS)
                continue
            delay_ns = _FIRST_DELAY_NS
            await self._clock.wait(self._pinged, timeout_ns=_PERIOD_NS)

    @property
    def _name(self) -> str:
        return self._description.identity

    async def _renew(self) -> None:
        """Set the renewal time of the candidate, or create it."""
        now = format_micro_time(self._clock.now_ns())
        try:
            found = await self._api.get(LeaseCandidate, self._name, _NAMESPACE)
        except ApiError as exc:
            if exc.code != 404:
                raise
            await self._api.create(self._candidate(now))
            log.info("Created lease candidate", name=self._name)
            return
        spec = {**found.spec, "renewTime": now}
        await self._api.update(msgspec.structs.replace(found, spec=spec))

    def _candidate(self, now: str) -> LeaseCandidate:
        description = self._description
        return LeaseCandidate(
            metadata=ObjectMeta(name=description.identity, namespace=_NAMESPACE),
            spec={
                "leaseName": description.lease_name,
                "binaryVersion": description.binary_version,
                "emulationVersion": description.emulation_version,
                "strategy": description.strategy,
                "renewTime": now,
            },
        )


def _is_pinged(candidate: LeaseCandidate) -> bool:
    """Whether the server has pinged the candidate since its last renewal."""
    pinged, renewed = candidate.spec.get("pingTime"), candidate.spec.get("renewTime")
    if not pinged:
        return False
    try:
        return not renewed or parse_time(pinged) > parse_time(renewed)
    except KubeschedError:
        return False
