"""The state of a lease as one contender observed it (docs/reference/02 §7.3).

The class performs no I/O: it takes reads and writes with their times, and decides whether the lease
is still valid. It never compares the times in a lease with a local clock. Only the time since the
last observed change is relevant.
"""

from __future__ import annotations

import msgspec

from kubesched.api.coordination import Lease, LeaseSpec
from kubesched.foundation.util.clock import SECOND

__all__ = ["LeaseView"]


class LeaseView:
    """The lease in the state that one contender last observed. Times are monotonic."""

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self.lease = Lease()  # the base of the next write
        self.spec = LeaseSpec()
        self._version = ""
        self._changed_ns = 0
        self._missing_ns: int | None = None  # since when the lease does not exist

    @property
    def is_ours(self) -> bool:
        return self.spec.holder_identity == self._identity

    def is_valid(self, now_ns: int) -> bool:
        """Whether the lease is still valid for its holder.

        The duration is the one in the lease, which is the holder's.
        """
        duration_ns = (self.spec.lease_duration_seconds or 0) * SECOND
        return self._changed_ns + duration_ns > now_ns

    def may_be_held(self, now_ns: int, duration_ns: int) -> bool:
        """Whether the last holder of a lease that does not exist may still consider it valid.

        Its last renewal may be later than the last one that was read. Therefore the duration (the
        given one, or the longer one of the lease) counts from the time when the lease was missing.
        """
        if not self.lease.metadata.resource_version:
            return False  # this replica has never found a lease
        duration_ns = max(duration_ns, (self.spec.lease_duration_seconds or 0) * SECOND)
        return self._missing_ns is None or self._missing_ns + duration_ns > now_ns

    def saw(self, lease: Lease, now_ns: int) -> None:
        """Record a read. A write by any contender counts as a change."""
        self.lease, self._missing_ns = lease, None
        # The reference compares the record, to the second. The version also changes if the clock of
        # the holder stops or is set back.
        version = f"{lease.metadata.uid}/{lease.metadata.resource_version}"
        if version != self._version:
            self._version = version
            self.spec, self._changed_ns = lease.spec, now_ns

    def saw_none(self, now_ns: int) -> None:
        """Record a read that found no lease."""
        if self._missing_ns is None:
            self._missing_ns = now_ns

    def wrote(self, lease: Lease, now_ns: int) -> None:
        """Record a write, as the server returned it."""
        self.lease, self.spec, self._changed_ns = lease, lease.spec, now_ns
        self._missing_ns = None

    def proposal(self, spec: LeaseSpec) -> Lease:
        """Return the lease with another state. Its other fields stay."""
        return msgspec.structs.replace(self.lease, spec=spec)
