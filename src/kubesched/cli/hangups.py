"""SIGHUP: reloads the configuration, unless the terminal of the process was closed."""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["hangup_handler"]


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def hangup_handler(
    reload: Callable[[], object],
    stop: Callable[[], object],
    has_terminal: Callable[[], bool] = _has_terminal,
) -> Callable[[], None]:
    """Return a handler of SIGHUP.

    The kernel and shells send SIGHUP too, when the terminal of a process is closed. Then the
    process stops, as it would without a handler.
    """
    had_terminal = has_terminal()

    def on_hangup() -> None:
        if had_terminal and not has_terminal():
            stop()
        else:
            reload()

    return on_hangup
