"""The error for requests that the page's server refuses."""

from __future__ import annotations

from kubesched.errors import KubeschedError

__all__ = ["BadRequestError"]


class BadRequestError(KubeschedError):
    """A request is refused; `status` is the HTTP status of the response."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
