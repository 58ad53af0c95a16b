"""The WebSocket of `kubectl exec`: channels for output and for the result of a command."""

from __future__ import annotations

import msgspec

from kubesched.foundation.http.http_messages import WebSocket
from kubesched.foundation.util.clock import Clock

__all__ = ["ExecSession"]

_STDOUT, _STDERR, _ERROR = 1, 2, 3
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


class ExecSession:
    """Sends the result of a command to a client. Input is ignored."""

    protocols: tuple[str, ...] = _PROTOCOLS

    def __init__(
        self, stdout: bytes, stderr: bytes, exit_code: int, wait_ns: int | None, clock: Clock
    ) -> None:
        """`wait_ns` is how long the command runs; None: until the client closes the connection."""
        self._outputs = ((_STDOUT, stdout), (_STDERR, stderr))
        self._exit_code, self._wait_ns, self._clock = exit_code, wait_ns, clock

    async def __call__(self, socket: WebSocket) -> None:
        for channel, output in self._outputs:
            if output:
                await socket.send(bytes([channel]) + output)
        if self._wait_ns is None:
            await socket.wait_closed()
            return
        if self._wait_ns:
            await self._clock.sleep(self._wait_ns)
        await socket.send(bytes([_ERROR]) + _status(self._exit_code))


def _status(exit_code: int) -> bytes:
    """Return the Status that ends a session."""
    if not exit_code:
        return msgspec.json.encode({"metadata": {}, "status": "Success"})
    text = "command terminated with non-zero exit code"
    return msgspec.json.encode(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"{text}: error executing command, exit code {exit_code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }
    )
