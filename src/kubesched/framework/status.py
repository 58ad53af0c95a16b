"""The result of a plugin: a code, reasons for people and causes for programs.

docs/reference/04 §2.
"""

from __future__ import annotations

import enum

import msgspec

from kubesched.errors import text_of
from kubesched.framework.causes import Cause

__all__ = ["REJECTED", "SKIP", "SUCCESS", "Code", "Status"]


class Code(enum.IntEnum):
    """The meaning of a status; the numbers are the reference's."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """The name that metrics and logs show, such as `UnschedulableAndUnresolvable`."""
        return _LABELS[self]


_LABELS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}

# Compared dozens of times for every pod: looking up an enum member takes longer than comparing.
_SUCCESS, _SKIP = Code.SUCCESS, Code.SKIP

REJECTED = frozenset(
    {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING},
)


class Status(msgspec.Struct, frozen=True):
    """The result of a plugin. An expected rejection has reasons; a failure has an `error`."""

    code: Code
    reasons: tuple[str, ...] = ()
    error: BaseException | None = None
    plugin: str = ""  # filled in by the runtime, never by the plugin
    causes: tuple[Cause, ...] = ()  # the reasons as values: one cause per reason, or none at all

    @classmethod
    def unschedulable(cls, *reasons: str, causes: tuple[Cause, ...] = ()) -> Status:
        """Reject the pod for now; evicting other pods might help."""
        return cls(Code.UNSCHEDULABLE, reasons, None, "", causes)

    @classmethod
    def unresolvable(cls, *reasons: str, causes: tuple[Cause, ...] = ()) -> Status:
        """Reject the pod; evicting other pods cannot help."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, None, "", causes)

    @classmethod
    def pending(cls, *reasons: str, causes: tuple[Cause, ...] = ()) -> Status:
        """Reject the pod until an external event occurs; the retry then skips the backoff."""
        return cls(Code.PENDING, reasons, None, "", causes)

    @classmethod
    def failure(cls, error: BaseException | str) -> Status:
        """End the attempt with an error: a bug, or a failed call."""
        if isinstance(error, str):
            error = RuntimeError(error)
        return cls(Code.ERROR, (), error)

    @property
    def is_success(self) -> bool:
        return self.code is _SUCCESS

    @property
    def is_skip(self) -> bool:
        return self.code is _SKIP

    @property
    def is_rejected(self) -> bool:
        return self.code in REJECTED

    @property
    def all_reasons(self) -> tuple[str, ...]:
        """The error's text, if there is an error, and the reasons."""
        return self.reasons if self.error is None else (text_of(self.error), *self.reasons)

    @property
    def reasons_with_causes(self) -> tuple[tuple[str, Cause | None], ...]:
        """Return each of `all_reasons` with its cause; None for a reason without a cause."""
        missing = (None,) * (len(self.reasons) - len(self.causes))
        causes = (*self.causes, *missing)
        if self.error is not None:
            causes = (None, *causes)
        return tuple(zip(self.all_reasons, causes, strict=True))

    @property
    def message(self) -> str:
        return ", ".join(self.all_reasons)

    def as_error(self) -> BaseException | None:
        """Return the exception to raise or log; None for SUCCESS, WAIT and SKIP."""
        if self.code in (Code.SUCCESS, Code.WAIT, Code.SKIP):
            return None
        return self.error if self.error is not None else RuntimeError(self.message)

    def blame(self, plugin: str) -> Status:
        """Return the status with the plugin that gave it."""
        return Status(self.code, self.reasons, self.error, plugin, self.causes)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)
