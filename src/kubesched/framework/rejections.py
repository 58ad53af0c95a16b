"""The verdicts of one filter plugin on many nodes, as numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.status import Status
from kubesched.framework.wrong_answer import wrong_answer

__all__ = ["Rejections"]


class Rejections:
    """`codes[i]` is 0 when node i passes, else k for `statuses[k - 1]`.

    A plugin that rejects no node returns `Rejections.none()`, which costs nothing.
    """

    __slots__ = ("codes", "statuses")

    def __init__(
        self, codes: NDArray[np.unsignedinteger] | None, statuses: tuple[Status, ...] = ()
    ) -> None:
        self.codes = codes
        self.statuses = statuses

    @classmethod
    def none(cls) -> Rejections:
        return _NONE

    @classmethod
    def where(cls, rejected: NDArray[np.bool_], status: Status) -> Rejections:
        """Return the same status for every node where `rejected` is true."""
        return cls(rejected.view(np.uint8), (status,))

    @classmethod
    def from_statuses(cls, answers: Iterable[Status]) -> Rejections:
        """Build the verdicts from one status per node.

        Raises:
            TypeError: one of them is not a status.
        """
        numbers: dict[Status, int] = {}
        codes: list[int] = []
        for status in answers:
            if not isinstance(status, Status):
                error = wrong_answer(status, "a Status")
                for other in answers if isinstance(answers, list) else ():
                    if not isinstance(other, Status):
                        wrong_answer(other, "")  # closes coroutines, which would warn
                raise TypeError(str(error))
            if status.is_success:
                codes.append(0)
            else:
                codes.append(numbers.setdefault(status, len(numbers) + 1))
        if not numbers:
            return _NONE
        return cls(np.asarray(codes, dtype=np.uint32), tuple(numbers))

    def status(self, index: int) -> Status | None:
        """Return the status of node `index`, or None if it passed."""
        if self.codes is None or not (code := int(self.codes[index])):
            return None
        return self.statuses[code - 1]


_NONE = Rejections(None)
