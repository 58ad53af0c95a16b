"""Distinguishes a KeyboardInterrupt of the user from one that a plugin raises."""

from __future__ import annotations

import functools
import signal

__all__ = ["pass_on_interrupt"]


def pass_on_interrupt(thrown: BaseException) -> None:
    """Reraise a KeyboardInterrupt if it comes from the user, not from the called code.

    Ctrl-C raises it in the code that runs at that moment, unless the process handles the signal, as
    a process with an event loop does. There it can only come from a `raise`.
    """
    if not isinstance(thrown, KeyboardInterrupt):
        return
    handler = signal.getsignal(signal.SIGINT)
    # asyncio.Runner installs a partial, which raises at the second Ctrl-C.
    if handler is signal.default_int_handler or isinstance(handler, functools.partial):
        raise thrown
