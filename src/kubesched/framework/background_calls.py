"""API calls that a dispatcher executes outside the scheduling loop (docs/reference/04 §20.1).

The dispatcher exists with the gate SchedulerAsyncAPICalls. A plugin passes a call to
`handle.api_dispatcher`. If a call for the same object is waiting, the dispatcher merges the two, or
drops the less relevant one.
"""

from __future__ import annotations

import abc
import asyncio
import enum
from typing import ClassVar, NamedTuple, Protocol

from kubesched.api import Pod
from kubesched.api.access import ApiAccess

__all__ = ["ApiDispatcher", "BackgroundCall", "BackgroundCallOutcome", "BackgroundCallResult"]


class BackgroundCallOutcome(enum.Enum):
    """What became of a call. Only an executed call can have failed."""

    EXECUTED = "executed"
    SKIPPED = "call skipped"  # it changes nothing, or a more relevant call is under way
    OVERWRITTEN = "call overwritten"  # a newer or more relevant call replaced it


class BackgroundCallResult(NamedTuple):
    """The outcome of a call, and its error."""

    outcome: BackgroundCallOutcome
    error: Exception | None = None


class BackgroundCall(abc.ABC):
    """A write to one object. Its attributes may change while it waits."""

    # The type in metrics, and the relevance of this type: a call replaces a waiting call of lower
    # relevance.
    call_type: ClassVar[str]
    relevance: ClassVar[int]

    @property
    @abc.abstractmethod
    def uid(self) -> str:
        """The uid of the object."""

    @abc.abstractmethod
    async def execute(self, api: ApiAccess) -> None:
        """Send the request.

        Raises:
            ApiError: the server refused it, or could not be reached.
        """

    def merge(self, older: BackgroundCall) -> None:
        """Take over what this call would lose of an older call of its type."""
        del older

    def is_no_op(self) -> bool:
        """Whether the call would change nothing."""
        return False

    def sync(self, pod: Pod) -> None:
        """Compute the change from a newer version of the object."""
        del pod


class ApiDispatcher(Protocol):
    """Executes calls in the order in which their objects were first given."""

    def add(self, call: BackgroundCall) -> asyncio.Future[BackgroundCallResult]:
        """Add a call; the returned future gets its result. Awaiting it is optional."""
        ...
