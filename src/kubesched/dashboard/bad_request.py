"""What was asked cannot be answered."""

from __future__ import annotations

from kubesched.errors import KubeschedError

__all__ = ["BadRequestError"]


class BadRequestError(KubeschedError):
    """One line that says why; `status` is the HTTP status that goes with it."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
