"""Which replica may write when a lease was deleted."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.foundation.client.transport import ServerResponse
from kubesched.foundation.util.virtual_loop import run
from tests.fault_injection.lease_history import LeaseHistory


@pytest.mark.parametrize("has_seen", [False, True])
def test_a_former_holder_may_write_only_beside_a_process_that_had_not_seen_the_lease(
    has_seen: bool,
) -> None:
    async def main() -> None:
        history = LeaseHistory()
        history.on_change("ADDED", {"holderIdentity": "a", "leaseDurationSeconds": 15}, "lease a")
        if has_seen:
            history.on_answer("lease b", ServerResponse(200, b"{}"))
        else:
            history.on_answer("lease b", ServerResponse(404, b"{}"))
        history.on_change("DELETED", {"holderIdentity": "a", "leaseDurationSeconds": 15}, "")
        assert history.may_write("a")
        assert not history.may_write("b")
        history.on_change("ADDED", {"holderIdentity": "b", "leaseDurationSeconds": 15}, "lease b")
        assert history.may_write("b")
        await asyncio.sleep(14.9)
        assert history.may_write("a") is not has_seen
        await asyncio.sleep(0.2)
        assert not history.may_write("a")

    run(main)
