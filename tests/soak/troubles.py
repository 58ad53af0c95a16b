"""Faults that are injected into the processes of a soak test, one after another.

`HARD` faults end leaders and servers. A leader and a server must survive `SOFT` faults, so that
their memory can be observed for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
from collections.abc import Awaitable, Callable

from tests.soak.harness import SoakHarness
from tests.soak.processes import Process

__all__ = ["HARD", "SOFT", "Trouble"]

Trouble = Callable[[SoakHarness], Awaitable[None]]

_LEASE_S = 30.0
_CONNECTIONS = 60


async def kill_leader(harness: SoakHarness) -> None:
    leader = harness.leader()
    if leader is not None:
        leader.signal(signal.SIGKILL)


async def kill_standby(harness: SoakHarness) -> None:
    leader = harness.leader()
    for scheduler in harness.schedulers:
        if scheduler is not leader:
            scheduler.signal(signal.SIGKILL)


async def stop_leader_for_longer_than_its_lease(harness: SoakHarness) -> None:
    leader = harness.leader()
    if leader is not None:
        await _stopped(leader, 2 * _LEASE_S)


async def stop_leader_briefly(harness: SoakHarness) -> None:
    leader = harness.leader()
    if leader is not None:
        await _stopped(leader, 1.5)


async def kill_server(harness: SoakHarness) -> None:
    harness.server.signal(signal.SIGKILL)


async def stop_server_for_longer_than_a_lease(harness: SoakHarness) -> None:
    await _stopped(harness.server, 1.5 * _LEASE_S)


async def stop_server_briefly(harness: SoakHarness) -> None:
    await _stopped(harness.server, 1.5)


async def disk_full_for_longer_than_a_lease(harness: SoakHarness) -> None:
    await _disk_full(harness.server, 1.5 * _LEASE_S)


async def disk_full_briefly(harness: SoakHarness) -> None:
    await _disk_full(harness.server, 2.0)


async def server_without_descriptors(harness: SoakHarness) -> None:
    await _no_descriptors(harness.server, harness, 3.0)


async def leader_without_descriptors(harness: SoakHarness) -> None:
    leader = harness.leader()
    if leader is not None:
        await _no_descriptors(leader, harness, 3.0)


async def new_certificates(harness: SoakHarness) -> None:
    harness.issue()
    harness.server.signal(signal.SIGHUP)


async def new_authority(harness: SoakHarness) -> None:
    harness.add_authority()
    harness.server.signal(signal.SIGHUP)
    await asyncio.sleep(12)  # by then all processes have read the file with both authorities
    await new_certificates(harness)


HARD: tuple[Trouble, ...] = (
    kill_leader,
    kill_server,
    stop_leader_for_longer_than_its_lease,
    disk_full_for_longer_than_a_lease,
    server_without_descriptors,
    new_authority,
    stop_server_for_longer_than_a_lease,
    leader_without_descriptors,
    new_certificates,
    kill_standby,
)
SOFT: tuple[Trouble, ...] = (
    stop_leader_briefly,
    kill_standby,
    disk_full_briefly,
    new_certificates,
    server_without_descriptors,
    stop_server_briefly,
    leader_without_descriptors,
    new_authority,
)


async def _stopped(process: Process, seconds: float) -> None:
    process.signal(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    process.signal(signal.SIGCONT)


async def _disk_full(process: Process, seconds: float) -> None:
    """Let every write to a file fail. Logs go to pipes."""
    process.limit(resource.RLIMIT_FSIZE, 0)
    await asyncio.sleep(seconds)
    process.limit(resource.RLIMIT_FSIZE, None)


async def _no_descriptors(process: Process, harness: SoakHarness, seconds: float) -> None:
    """Leave no free descriptor, while other clients connect."""
    if not process.is_alive:
        return
    process.limit(resource.RLIMIT_NOFILE, process.descriptors() + 3)
    strangers = [asyncio.create_task(_knock(harness.port_of(process))) for _ in range(_CONNECTIONS)]
    await asyncio.sleep(seconds)
    for stranger in strangers:
        stranger.cancel()
    await asyncio.wait(strangers)
    process.limit(resource.RLIMIT_NOFILE, None)


async def _knock(port: int) -> None:
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.Event().wait()
        finally:
            writer.close()
