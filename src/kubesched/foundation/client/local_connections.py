"""Plain connections to processes on this machine."""

from __future__ import annotations

import asyncio

from kubesched.errors import KubeschedError

__all__ = ["open_local_connection"]

_SECONDS = 5.0


async def open_local_connection(
    host: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port. Raises KubeschedError."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await asyncio.open_connection(host, port)
    except TimeoutError as error:
        raise KubeschedError(f"dial tcp {host}:{port}: i/o timeout") from error
    except OSError as error:
        raise KubeschedError(f"dial tcp {host}:{port}: {error.strerror or error}") from error
