"""A shell in a simulated container: each line of the input is run as a command of its own.

`kubectl exec -it POD -- sh` and clients that write to the input of a shell use it. There are no
variables, jobs or history. With a terminal the input is echoed and a prompt is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from kubesched.cluster.apiserver.http.remote_commands import STDERR, STDOUT, Emit, ReadInput

__all__ = ["InteractiveShell", "RunLine", "is_interactive_shell"]

_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
_PROMPT: Final = b"$ "
# A longer line is cut.
_LONGEST_LINE: Final = 64 * 1024
_INTERRUPT, _END, _BACKSPACES = 3, 4, (8, 127)
_NEWLINES: Final = (10, 13)
_INTERRUPTED: Final = 130
# Runs a command, and returns its output, its errors and its exit code; a code of None: the command
# runs until it is interrupted.
RunLine = Callable[[str], Awaitable[tuple[bytes, bytes, int | None]]]


def is_interactive_shell(command: Sequence[str]) -> bool:
    """Tell whether a command is a shell that reads its commands from its input."""
    return command[0].rpartition("/")[2] in _SHELLS and set(command[1:]) <= {"-i", "-l"}


class _Line(NamedTuple):
    """A line of the input; `is_last` if the input ends with it."""

    text: str
    is_last: bool = False


class InteractiveShell:
    """Reads lines, runs them, and returns the code of `exit` or of the last command."""

    def __init__(self, run: RunLine, *, has_terminal: bool) -> None:
        self._run, self._has_terminal = run, has_terminal
        self._received = bytearray()

    async def __call__(self, emit: Emit, read: ReadInput) -> int:
        code = 0
        while True:
            # A client may send many lines at once.
            await asyncio.sleep(0)
            if self._has_terminal:
                await emit(STDOUT, _PROMPT)
            line = await self._line(emit, read)
            words = line.text.split()
            if words and words[0] == "exit":
                has_code = len(words) > 1 and words[1].isascii() and words[1][:9].isdecimal()
                return int(words[1][:9]) & 255 if has_code else code
            if words:
                stdout, stderr, exit_code = await self._run(line.text)
                for channel, output in ((STDOUT, stdout), (STDERR, stderr)):
                    if output:
                        await self._print(emit, channel, output)
                code = await _interrupted(read) if exit_code is None else exit_code
            if line.is_last:
                return code

    async def _print(self, emit: Emit, channel: int, output: bytes) -> None:
        if self._has_terminal:
            # A terminal has one output, and its lines begin at the left.
            await emit(STDOUT, output.replace(b"\n", b"\r\n"))
        else:
            await emit(channel, output)

    async def _line(self, emit: Emit, read: ReadInput) -> _Line:
        """Wait for a line. With a terminal, echo and edit it."""
        line = bytearray()
        while True:
            if not self._received:
                self._received += await read()
                if not self._received:
                    return _Line(_text(line), is_last=True)
            if not self._has_terminal:
                end = self._received.find(b"\n")
                line += self._received[: end if end >= 0 else None]
                del self._received[: end + 1 if end >= 0 else None]
                if end >= 0:
                    return _Line(_text(line))
            elif (typed := await self._type(self._received.pop(0), line, emit)) is not None:
                return typed
            del line[_LONGEST_LINE:]

    async def _type(self, byte: int, line: bytearray, emit: Emit) -> _Line | None:
        """Handle a key; return the line if it ends."""
        if byte in _NEWLINES:
            await emit(STDOUT, b"\r\n")
            return _Line(_text(line))
        if byte == _END and not line:
            return _Line("exit")
        if byte == _INTERRUPT:
            await emit(STDOUT, b"^C\r\n")
            return _Line("")
        if byte in _BACKSPACES and line:
            del line[-1]
            await emit(STDOUT, b"\b \b")
        elif byte >= 32 and byte not in _BACKSPACES and len(line) < _LONGEST_LINE:
            line.append(byte)
            await emit(STDOUT, bytes([byte]))
        return None


async def _interrupted(read: ReadInput) -> int:
    """Wait for Ctrl-C, or for the end of the input."""
    while (received := await read()) and _INTERRUPT not in received:
        pass
    return _INTERRUPTED


def _text(line: bytearray) -> str:
    return line.decode(errors="replace").strip()
