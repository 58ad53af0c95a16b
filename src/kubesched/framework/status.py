"""A plugin's answer: a code, and the reasons a person will read (docs/reference/04 §2)."""

from __future__ import annotations

import enum

import msgspec

from kubesched.errors import text_of
from kubesched.framework.causes import Cause

__all__ = ["REJECTED", "SKIP", "SUCCESS", "Code", "Status"]


class Code(enum.IntEnum):
    """What an answer means; the numbers are the reference's."""

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

# Asked dozens of times for every pod: a member of an enum takes longer to find than to compare.
_SUCCESS, _SKIP = Code.SUCCESS, Code.SKIP

REJECTED = frozenset(
    {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING},
)


class Status(msgspec.Struct, frozen=True):
    """A plugin's answer. An expected "no" is a Status; a broken world is its `error`."""

    code: Code
    reasons: tuple[str, ...] = ()
    error: BaseException | None = None
    plugin: str = ""  # filled in by the runtime, never by the plugin
    causes: tuple[Cause, ...] = ()  # the reasons as values: one for each of them, or none

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
        """The attempt cannot go on: a bug, or a world that does not answer."""
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
        """The error's text, if there is one, and then the reasons."""
        return self.reasons if self.error is None else (text_of(self.error), *self.reasons)

    @property
    def reasons_with_causes(self) -> tuple[tuple[str, Cause | None], ...]:
        """Each of `all_reasons` with its cause, or None for a reason without one."""
        missing = (None,) * (len(self.reasons) - len(self.causes))
        causes = (*self.causes, *missing)
        if self.error is not None:
            causes = (None, *causes)
        return tuple(zip(self.all_reasons, causes, strict=True))

    @property
    def message(self) -> str:
        return ", ".join(self.all_reasons)

    def as_error(self) -> BaseException | None:
        """None for an answer that lets the pod go on, else what to raise or log."""
        if self.code in (Code.SUCCESS, Code.WAIT, Code.SKIP):
            return None
        return self.error if self.error is not None else RuntimeError(self.message)

    def blame(self, plugin: str) -> Status:
        """The same answer, with the plugin that gave it."""
        return Status(self.code, self.reasons, self.error, plugin, self.causes)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)
