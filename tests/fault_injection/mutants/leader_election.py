"""Mutants of leader election and of the fence around writes."""

from __future__ import annotations

from typing import Any

from kubesched.foundation.util.clock import MILLISECOND, SECOND
from tests.fault_injection.mutants.mutant import (
    Mutant,
    Overlay,
    no,
    nothing,
    replace,
    with_value,
    wrap,
    zero,
)

__all__ = ["MUTANTS"]

_FENCE = "kubesched.foundation.client.lease_fence.LeaseFence"
_VIEW = "kubesched.foundation.client.lease_view.LeaseView"
_ELECTOR = "kubesched.foundation.client.leader_election.LeaderElector"


class _EqualToEverything:
    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def _close_too_late(
    original: Any,
    self: Any,
    clock: Any,
    lease_duration_ns: int,
    renew_deadline_ns: int,
    retry_period_ns: int,
) -> None:
    original(self, clock, lease_duration_ns, renew_deadline_ns, retry_period_ns)
    self._begins_ns = 2 * lease_duration_ns


def _allow_an_hour(original: Any, self: Any, *args: Any, **options: Any) -> None:
    original(self, *args, **options)
    self._ends_ns = 3600 * SECOND
    self._allowance_ns = min(self._allowance_ns, 100 * MILLISECOND)


def _begin_until_the_end(_original: Any, self: Any) -> bool:
    return self._is_open and self._age_ns() < self._ends_ns


def _valid_if_ours(view: Any) -> Any:
    return Overlay(view, is_valid=lambda now_ns: view.is_ours and view.is_valid(now_ns))


async def _release_any_lease(original: Any, self: Any) -> None:
    view = Overlay(self._view, is_ours=True)
    settings = Overlay(self._settings, identity=_EqualToEverything())
    await original(Overlay(self, _view=view, _settings=settings))


def _halve_duration(_original: Any, self: Any, now_ns: int) -> bool:
    duration_ns = (self.spec.lease_duration_seconds or 0) * SECOND
    return self._changed_ns + duration_ns // 2 > now_ns


def _not_if_ours(original: Any, self: Any, now_ns: int, duration_ns: int) -> bool:
    return not self.is_ours and bool(original(self, now_ns, duration_ns))


def _ignore_renewals(original: Any, self: Any, lease: Any, now_ns: int) -> None:
    before = self._changed_ns
    original(self, lease, now_ns)
    self._changed_ns = before


async def _check_fence_once(
    original: Any, self: Any, fence: Any, request: Any, attempt: int
) -> Any:
    def check(ends_ns: int) -> int:
        return max(1, ends_ns - self._clock.monotonic_ns())

    return await original(self, Overlay(fence, check=check), request, attempt)


MUTANTS = {
    "no fence protects the lease": Mutant(3, (replace(f"{_FENCE}._age_ns", zero),)),
    "the fence closes too late": Mutant(3, (wrap(f"{_FENCE}.__init__", _close_too_late),)),
    "the lease is released while writes are in flight": Mutant(
        18, (replace(f"{_FENCE}.settled", nothing),)
    ),
    "a valid lease is taken over": Mutant(
        0, (with_value(f"{_ELECTOR}._try", "self._view", _valid_if_ours),)
    ),
    "a lease expires after half of its duration": Mutant(
        3, (wrap(f"{_VIEW}.is_valid", _halve_duration),)
    ),
    "a renewal by another replica is ignored": Mutant(
        31, (wrap(f"{_VIEW}.saw", _ignore_renewals),)
    ),
    "the lease of another replica is released": Mutant(
        350, (wrap(f"{_ELECTOR}._release", _release_any_lease),)
    ),
    "the fence stays open for an hour": Mutant(
        495,
        (
            wrap(f"{_FENCE}.__init__", _allow_an_hour),
            wrap(f"{_FENCE}.may_begin", _begin_until_the_end),
        ),
    ),
    "the fence is checked once per write": Mutant(
        3, (wrap("kubesched.foundation.client.http_api.HttpApi._send_fenced", _check_fence_once),)
    ),
    "the fence does not look at the wall clock": Mutant(
        22, (with_value(f"{_FENCE}._age_ns", "self._clock.now_ns", lambda _: zero),)
    ),
    "a deleted lease is taken although it was valid": Mutant(
        13, (replace(f"{_VIEW}.may_be_held", no),)
    ),
    "a replica whose lease has expired creates it when it is deleted": Mutant(
        18, (wrap(f"{_VIEW}.may_be_held", _not_if_ours),)
    ),
    "a lease that is read counts as renewed": Mutant(
        2, (with_value(f"{_VIEW}.saw", "self._version", lambda _: ""),)
    ),
}
