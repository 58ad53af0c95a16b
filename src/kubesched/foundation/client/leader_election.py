"""Leader election: one of several replicas holds a Lease (docs/reference/02 §7).

A leader renews the lease, and stops leading well before another replica may acquire it. The writes
of a leader pass through the elector's `fence`. The fence closes by itself when another replica
could hold the lease, even if this process was suspended for minutes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.coordination import Lease, LeaseSpec
from kubesched.api.meta import ObjectMeta
from kubesched.api.time import format_micro_time
from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.client.informer_backoff import jitter
from kubesched.foundation.client.lease_fence import LeaseFence
from kubesched.foundation.client.lease_trouble import LeaseTrouble
from kubesched.foundation.client.lease_view import LeaseView
from kubesched.foundation.client.lease_watch import LeaseWatch
from kubesched.foundation.metrics.client_metrics import LeaderElectionMetrics
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

__all__ = ["ElectionSettings", "LeaderElector"]

log = get_logger(__name__)

_MOST_TRANSITIONS = 2**31 - 1

_JITTER = 1.2
_CONFLICT = 409

_Moment = tuple[int, int]  # monotonic, wall


class ElectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The lease, the identity of this process, and the three durations."""

    identity: str
    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    lease_duration_ns: int = 15 * SECOND
    renew_deadline_ns: int = 10 * SECOND
    retry_period_ns: int = 2 * SECOND

    def check(self) -> None:
        """Raises ConfigError if the durations cannot work together."""
        if self.lease_duration_ns <= self.renew_deadline_ns:
            raise ConfigError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline_ns <= int(self.retry_period_ns * _JITTER):
            raise ConfigError("renewDeadline must be greater than retryPeriod*JitterFactor")
        for name, value in (
            ("leaseDuration", self.lease_duration_ns),
            ("renewDeadline", self.renew_deadline_ns),
            ("retryPeriod", self.retry_period_ns),
        ):
            if value < 1:
                raise ConfigError(f"{name} must be greater than zero")

    @property
    def request_timeout_ns(self) -> int:
        """How long a request about the lease may take."""
        return max(SECOND, self.renew_deadline_ns // 2)


class LeaderElector:
    """A component that takes part in one election. It ends when it no longer leads.

    `record` is called with the lease and the kind of change, to record an event.
    """

    def __init__(
        self,
        api: ApiAccess,
        clock: Clock,
        random: random.Random,
        settings: ElectionSettings,
        *,
        metrics: LeaderElectionMetrics | None = None,
        record: Callable[[Lease, str], None] | None = None,
    ) -> None:
        settings.check()
        self._api, self._clock, self._random = api, clock, random
        self._settings, self._metrics, self._record = settings, metrics, record
        self._lock = f"{settings.namespace}/{settings.name}"
        self._view = LeaseView(settings.identity)
        self._watch = LeaseWatch(api, clock, settings.name, settings.namespace, settings.identity)
        # What a health check reports about the requests of this elector.
        self.trouble = LeaseTrouble(clock, self._lock, settings.renew_deadline_ns, metrics)
        # What this process may send to the cluster, as the leader.
        self.fence = LeaseFence(
            clock,
            settings.lease_duration_ns,
            settings.renew_deadline_ns,
            settings.retry_period_ns,
        )
        self._has_led = False
        self._leading = asyncio.Event()
        self._over = asyncio.Event()
        self._stop = StopSwitch()
        if metrics is not None:
            metrics.set_leading(False)

    @property
    def leading(self) -> asyncio.Event:
        """Set when the lease was acquired; it stays set when it is lost."""
        return self._leading

    @property
    def over(self) -> asyncio.Event:
        """Set when this replica stops leading, before it releases the lease.

        Writes in flight are abandoned then.
        """
        return self._over

    def may_act(self) -> bool:
        """Whether this process leads for certain, at this moment."""
        return self.fence.may_begin()

    async def run(self) -> None:
        """Acquire the lease, renew it, and release it at the end in every case."""
        await self._stop.guard(self._acquire_and_renew())
        self.fence.close()
        self._over.set()
        if self._metrics is not None:
            self._metrics.set_leading(False)
        if self._has_led:
            log.info("Failed to renew lease", lock=self._lock)
            await self._release()
            self._record_transition("stopped leading")

    def stop(self) -> None:
        """Stop, and release the lease if this replica holds it. Stop acting before calling this."""
        self._stop.set()

    async def _acquire_and_renew(self) -> None:
        log.info("Attempting to acquire leader lease...", lock=self._lock)
        try:
            while not await self._try_within(None):
                log.detail(4, "Failed to acquire lease", lock=self._lock)
                retry_ns = jitter(self._settings.retry_period_ns, _JITTER, self._random)
                await self._watch.wait(self._view.lease, retry_ns)
            self._has_led = True
            if self._metrics is not None:
                self._metrics.set_leading(True)
            self._record_transition("became leader")
            log.info("Successfully acquired lease", lock=self._lock)
            self._leading.set()
        finally:
            await self._watch.close()
        while await self._renew_round():
            await self._clock.sleep(self._settings.retry_period_ns)

    async def _renew_round(self) -> bool:
        """Try to renew until it works; False if it did not within the deadline."""
        ends_ns = self._clock.monotonic_ns() + self._settings.renew_deadline_ns
        while (left_ns := ends_ns - self._clock.monotonic_ns()) > 0:
            if await self._try_within(left_ns):
                log.detail(5, "Successfully renewed lease", lock=self._lock)
                return True
            left_ns = ends_ns - self._clock.monotonic_ns()
            await self._clock.sleep(max(0, min(left_ns, self._settings.retry_period_ns)))
        return False

    async def _try_within(self, left_ns: int | None) -> bool:
        """Try once to acquire or renew.

        The attempt fails if the server does not respond in time.
        """
        limit_ns = 3 * self._settings.request_timeout_ns  # of an attempt's requests
        if left_ns is not None:
            limit_ns = min(limit_ns, left_ns)
        try:
            async with asyncio.timeout(limit_ns / SECOND):
                return await self._try()
        except TimeoutError:
            no_answer = KubeschedError("the API server does not answer in time")
            self.trouble.failed("Error retrieving lease lock", no_answer)
            return False

    async def _try(self) -> bool:
        view, began = self._view, (self._clock.monotonic_ns(), self._clock.now_ns())
        now_ns = began[0]
        if view.is_ours and view.is_valid(now_ns):
            kept = view.spec
            if await self._write(self._spec(kept.acquire_time, kept.lease_transitions), began, 2):
                return True
        try:
            found = await self._api.get(Lease, self._settings.name, self._settings.namespace)
        except ApiError as error:
            if error.code == 404:
                return await self._create(began)
            self.trouble.failed("Error retrieving lease lock", error)
            return False
        view.saw(found, self._clock.monotonic_ns())
        if not view.is_ours:
            self.fence.close()
        holder = found.spec.holder_identity
        if holder and not view.is_ours and view.is_valid(now_ns):
            log.detail(
                4, "Lease is held by and has not yet expired", lock=self._lock, holder=holder
            )
            self.trouble.ended()
            return False
        if view.is_ours:
            if self._metrics is not None:
                self._metrics.count_slow_path()
            spec = self._spec(found.spec.acquire_time, found.spec.lease_transitions)
        else:
            # A server refuses a number beyond 32 bits, and no replica could acquire the lease.
            changes = (found.spec.lease_transitions or 0) + 1
            spec = self._spec(None, changes if changes <= _MOST_TRANSITIONS else 0)
        return await self._write(spec, began)

    async def _create(self, began: _Moment) -> bool:
        self._view.saw_none(self._clock.monotonic_ns())
        duration_ns = self._settings.lease_duration_ns
        if not self.fence.may_begin() and self._view.may_be_held(began[0], duration_ns):
            # The lease was deleted. Its holder creates it again; until then it may send writes.
            self.trouble.ended()
            return False
        metadata = ObjectMeta(name=self._settings.name, namespace=self._settings.namespace)
        try:
            created = await self._api.create(Lease(metadata=metadata, spec=self._spec(None, 0)))
        except ApiError as error:
            self.trouble.failed("Error initially creating lease lock", error)
            if error.reason == "AlreadyExists":
                await self._read_of_another()
            return False
        return self._written(created, began)

    async def _read_of_another(self) -> None:
        """Read the lease that another replica has created in the meantime.

        Otherwise this replica would acquire it at once if it was deleted before the next try.
        """
        try:
            found = await self._api.get(Lease, self._settings.name, self._settings.namespace)
        except ApiError as error:
            self.trouble.failed("Error retrieving lease lock", error)
            return
        self._view.saw(found, self._clock.monotonic_ns())

    async def _write(self, spec: LeaseSpec, began: _Moment, detail: int | None = None) -> bool:
        try:
            updated = await self._api.update(self._view.proposal(spec))
        except ApiError as error:
            if error.code == _CONFLICT and not self._view.is_ours:
                # All standbys receive the release at the same time; another one was faster.
                log.detail(4, "Another replica acquired the lease", lock=self._lock)
                self.trouble.ended()
            elif detail is None:
                self.trouble.failed("Failed to update lease", error)
            else:
                log.detail(
                    detail,
                    "Failed to update lease optimistically, falling back to slow path",
                    lock=self._lock,
                    err=error,
                )
            return False
        return self._written(updated, began)

    def _written(self, lease: Lease, began: _Moment) -> bool:
        self._view.wrote(lease, self._clock.monotonic_ns())
        self.trouble.ended()
        # From before the request: others cannot have begun to wait earlier than this.
        self.fence.renewed(*began)
        return True

    def _spec(self, acquire_time: str | None, transitions: int | None) -> LeaseSpec:
        now = format_micro_time(self._clock.now_ns())
        return LeaseSpec(
            holder_identity=self._settings.identity,
            lease_duration_seconds=self._settings.lease_duration_ns // SECOND,
            acquire_time=acquire_time or now,
            renew_time=now,
            lease_transitions=transitions or 0,
        )

    async def _release(self) -> None:
        """Release the lease, so that another replica does not wait until it expires."""
        if not self._view.is_ours:
            return
        await self.fence.settled()
        try:
            async with asyncio.timeout(self._settings.renew_deadline_ns / SECOND):
                found = await self._api.get(Lease, self._settings.name, self._settings.namespace)
                # The stored copy may be stale: another replica may hold the lease by now.
                if found.spec.holder_identity != self._settings.identity:
                    return
                now = format_micro_time(self._clock.now_ns())
                released = LeaseSpec(
                    holder_identity="",
                    lease_duration_seconds=1,
                    acquire_time=now,
                    renew_time=now,
                    lease_transitions=found.spec.lease_transitions,
                )
                await self._api.update(msgspec.structs.replace(found, spec=released))
        except ApiError as error:
            if error.code == 404:
                log.info("lease lock not found", lock=self._lock)
            else:
                log.error("Failed to release lease", exc=error, lock=self._lock)
        except TimeoutError as error:
            log.error("Failed to release lease", exc=error, lock=self._lock)

    def _record_transition(self, what: str) -> None:
        if self._record is not None:
            self._record(self._view.lease, f"{self._settings.identity} {what}")
