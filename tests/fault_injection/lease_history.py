"""Who may write: the holder of the lease, over the store's history."""

from __future__ import annotations

from typing import Any

from kubesched.foundation.client.transport import ServerResponse
from kubesched.foundation.util.clock import SECOND, current_clock

__all__ = ["LEASE_CLIENT", "LeaseHistory"]

# The name of the client with which a process sends requests about the lease.
LEASE_CLIENT = "lease "


class LeaseHistory:
    """The holder of the lease, and the processes that may write beside it for a while.

    A process that starts while the lease is missing creates it at once. It cannot find out that
    another process held it before. That one may write until its lease would have expired.
    """

    def __init__(self) -> None:
        self._clock = current_clock()
        # Of a deleted lease, the last holder.
        self.holder: str | None = None
        self._duration_ns = 0
        self._have_seen: set[str] = set()  # processes that have received a lease
        self._may_write_until_ns: dict[str, int] = {}

    def on_answer(self, name: str, answer: ServerResponse) -> None:
        """Record that a process has received the lease."""
        if name.startswith(LEASE_CLIENT) and answer.status in (200, 201):
            self._have_seen.add(name.removeprefix(LEASE_CLIENT))

    def on_change(self, type_: str, spec: dict[str, Any], client: str) -> None:
        """Record a change of the lease by a client."""
        now_ns, creator = self._clock.monotonic_ns(), client.removeprefix(LEASE_CLIENT)
        if type_ == "ADDED" and self.holder and creator not in self._have_seen:
            self._may_write_until_ns[self.holder] = now_ns + self._duration_ns
        self.holder = spec.get("holderIdentity")
        self._duration_ns = spec["leaseDurationSeconds"] * SECOND

    def may_write(self, name: str) -> bool:
        """Whether a process may write now."""
        is_late = self._clock.monotonic_ns() >= self._may_write_until_ns.get(name, 0)
        return name == self.holder or not is_late
