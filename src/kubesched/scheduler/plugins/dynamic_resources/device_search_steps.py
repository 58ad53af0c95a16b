"""What a search for devices is given and returns, and the work that it may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kubesched.api.quantity import Quantity
from kubesched.scheduler.plugins.dynamic_resources.device_requests import (
    ClaimRequests,
    ResolvedDeviceRequest,
)

__all__ = [
    "MOST_STEPS",
    "STEPS_PER_TURN",
    "AllocationError",
    "NamedClaim",
    "Pick",
    "SearchBudget",
    "SearchLimitError",
    "SearchPausedError",
    "SearchTimeoutError",
    "Solution",
]

# A step takes one or two microseconds. Beyond the first figure a search fails. Beyond the second
# an attempt is interrupted between two searches, so that the event loop can continue.
MOST_STEPS = 20_000
STEPS_PER_TURN = 30_000


class AllocationError(Exception):
    """A claim, a class or a slice is invalid; the text is the reference's."""


class SearchTimeoutError(Exception):
    """The search took too long."""


class SearchLimitError(SearchTimeoutError):
    """The search took too many steps; it always does while claims and devices are the same."""


class SearchPausedError(SearchTimeoutError):
    """The attempt used up its steps for this iteration of the loop.

    Intermediate results are cached.
    """


class NamedClaim(NamedTuple):
    """A claim that needs devices: its name for errors, and its requests."""

    name: str  # namespace/name
    requests: ClaimRequests


class Pick(NamedTuple):
    """A device for a request, by position: valid for every node of the same group."""

    view: int
    device: int
    request: ResolvedDeviceRequest
    is_share: bool
    consumed: Mapping[str, Quantity]


class Solution(NamedTuple):
    """The devices of each claim, in order, and the chosen alternatives."""

    picks: tuple[tuple[Pick, ...], ...]
    chosen: Mapping[tuple[int, int], int]  # claim and request -> alternative


class SearchBudget:
    """The number of steps that the searches of one attempt may take, in total and per iteration."""

    def __init__(self) -> None:
        self._limit: int | None = None
        self.spent = 0
        # Whether a search was interrupted in this turn.
        self.is_exceeded = False

    def begin(self, *, may_pause: bool) -> None:
        """Begin a turn; without pauses, an attempt runs all its searches."""
        self._limit = STEPS_PER_TURN if may_pause else None
        self.spent = 0
        self.is_exceeded = False

    def charge(self, steps: int) -> None:
        self.spent += steps

    def check(self) -> None:
        """Raise SearchPausedError if the steps are used up.

        Cache intermediate results before the call.
        """
        if self._limit is not None and self.spent >= self._limit:
            self.is_exceeded = True
            raise SearchPausedError
