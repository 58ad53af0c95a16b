"""Reads standard input, for commands that accept `-` as a file."""

from __future__ import annotations

import sys

from kubesched.errors import ConfigError

__all__ = ["read_standard_input", "read_standard_text"]


def read_standard_input() -> bytes:
    """Read all bytes of standard input.

    Raises:
        ConfigError: standard input is closed.
    """
    # None in a process without standard input.
    if sys.stdin is None or sys.stdin.closed:
        raise ConfigError("standard input is closed")
    buffer = getattr(sys.stdin, "buffer", None)
    return sys.stdin.read().encode() if buffer is None else bytes(buffer.read())


def read_standard_text() -> str:
    """Read all of standard input as text.

    Raises:
        ConfigError: standard input is closed, or is not UTF-8.
    """
    try:
        return read_standard_input().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"standard input: not UTF-8 text: {error.reason}") from error
