"""What happens to the processes of a soak, one after another.

`HARD` ends leaders and servers. `SOFT` is what a leader and a server must live through, so their
memory can be followed over a long life.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
from collections.abc import Awaitable, Callable

from tests.soak.processes import Process
from tests.soak.world import World

__all__ = ["HARD", "SOFT", "Trouble"]

Trouble = Callable[[World], Awaitable[None]]

_LEASE_S = 30.0
_CONNECTIONS = 60


async def kill_leader(world: World) -> None:
    leader = world.leader()
    if leader is not None:
        leader.signal(signal.SIGKILL)


async def kill_standby(world: World) -> None:
    leader = world.leader()
    for scheduler in world.schedulers:
        if scheduler is not leader:
            scheduler.signal(signal.SIGKILL)


async def stop_leader_for_longer_than_its_lease(world: World) -> None:
    leader = world.leader()
    if leader is not None:
        await _stopped(leader, 2 * _LEASE_S)


async def stop_leader_briefly(world: World) -> None:
    leader = world.leader()
    if leader is not None:
        await _stopped(leader, 1.5)


async def kill_server(world: World) -> None:
    world.server.signal(signal.SIGKILL)


async def stop_server_for_longer_than_a_lease(world: World) -> None:
    await _stopped(world.server, 1.5 * _LEASE_S)


async def stop_server_briefly(world: World) -> None:
    await _stopped(world.server, 1.5)


async def disk_full_for_longer_than_a_lease(world: World) -> None:
    await _disk_full(world.server, 1.5 * _LEASE_S)


async def disk_full_briefly(world: World) -> None:
    await _disk_full(world.server, 2.0)


async def server_without_descriptors(world: World) -> None:
    await _no_descriptors(world.server, world, 3.0)


async def leader_without_descriptors(world: World) -> None:
    leader = world.leader()
    if leader is not None:
        await _no_descriptors(leader, world, 3.0)


async def new_certificates(world: World) -> None:
    world.issue()
    world.server.signal(signal.SIGHUP)


async def new_authority(world: World) -> None:
    world.add_authority()
    world.server.signal(signal.SIGHUP)
    await asyncio.sleep(12)  # by then all have read the file with both
    await new_certificates(world)


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
    """Not a byte more into any file. Logs go to pipes."""
    process.limit(resource.RLIMIT_FSIZE, 0)
    await asyncio.sleep(seconds)
    process.limit(resource.RLIMIT_FSIZE, None)


async def _no_descriptors(process: Process, world: World, seconds: float) -> None:
    """No descriptor is left, and strangers knock."""
    if not process.is_alive:
        return
    process.limit(resource.RLIMIT_NOFILE, process.descriptors() + 3)
    strangers = [asyncio.create_task(_knock(world.port_of(process))) for _ in range(_CONNECTIONS)]
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
