"""What code of others raises, told apart from what the user means for the whole process."""

from __future__ import annotations

import functools
import signal

__all__ = ["pass_on_interrupt"]


def pass_on_interrupt(thrown: BaseException) -> None:
    """Raise a KeyboardInterrupt again if it is the user's, and not of the code that was called.

    Ctrl-C raises it in whatever runs at that moment, unless the process handles the signal itself,
    as one does that has an event loop to end. There it can only come from a `raise`.
    """
    if not isinstance(thrown, KeyboardInterrupt):
        return
    handler = signal.getsignal(signal.SIGINT)
    # A partial is that of asyncio.Runner, which raises it when Ctrl-C is pressed again.
    if handler is signal.default_int_handler or isinstance(handler, functools.partial):
        raise thrown
