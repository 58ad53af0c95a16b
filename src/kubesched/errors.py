"""The exceptions of the package, as one tree.

    KubeschedError
    ├── ConfigError          a file, flag or argument of the user is invalid
    │   └── ManifestError    an object in a user's file is broken (carries file and line)
    ├── ApiError             an API server refused or failed (carries the Status)
    ├── ExtenderError        an HTTP extender failed, or its answer is invalid
    ├── QuantityError        a text is not a resource quantity
    ├── SelectorError        a label, field or node selector is invalid
    ├── CacheError           a change of the scheduler cache is not allowed in its state
    ├── PluginError          a plugin broke its contract
    ├── DeadlockError        virtual time cannot advance: no runnable task, no timer
    └── VirtualTimeError     a virtual loop has no sockets, threads or signals

Each layer raises its own branch and chains the cause. The next step for a user goes in a
note (`error.add_note`), so that a message that must match the reference stays as it is.
Branches that need more than a message are defined where their data lives.
"""

from __future__ import annotations

import traceback

__all__ = [
    "CacheError",
    "ConfigError",
    "DeadlockError",
    "KubeschedError",
    "ManifestError",
    "PluginError",
    "QuantityError",
    "SelectorError",
    "VirtualTimeError",
    "WebPageError",
    "drop_tracebacks",
    "place_of",
    "text_of",
]


_LONGEST_CHAIN = 100  # of causes; a plugin may build a chain that has no end


class KubeschedError(Exception):
    """The base of every exception that this package raises on purpose."""


class ConfigError(KubeschedError):
    """A file, flag or argument of the user is invalid."""


class ManifestError(ConfigError):
    """An object in a user's file is invalid. The text starts with `FILE:LINE:`."""


class QuantityError(KubeschedError, ValueError):
    """A text is not a resource quantity."""


class SelectorError(KubeschedError, ValueError):
    """A label, field or node selector is invalid."""


class CacheError(KubeschedError):
    """A change of the scheduler cache is not allowed in its current state."""


class PluginError(KubeschedError):
    """A plugin broke the contract of its extension point."""


class WebPageError(KubeschedError):
    """A server that a plugin reads from gave no successful response."""


class DeadlockError(KubeschedError):
    """Virtual time cannot advance: no task is runnable and no timer is set.

    `waiting` has a line for each unfinished task: its name and the place where it waits.
    """

    def __init__(self, message: str, waiting: tuple[str, ...] = ()) -> None:
        super().__init__("\n  ".join((message, *waiting)))
        self.waiting = waiting


class VirtualTimeError(KubeschedError, RuntimeError):
    """A virtual loop has no sockets, threads or signals."""


def text_of(error: BaseException) -> str:
    """Return the text of an error, even if its `__str__` raises.

    Lone surrogates, which UTF-8 cannot encode, are escaped, so that the text can be sent.
    """
    try:
        text = str(error)
    except Exception:
        return type(error).__name__
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def drop_tracebacks(error: BaseException | None) -> None:
    """Remove the tracebacks of an error that has been reported, and of its causes.

    The frames of a traceback refer to the attempt, which refers to its error. The pod of such a
    cycle would stay in memory until the garbage collector examines everything.
    """
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def place_of(error: BaseException | None) -> str:
    """Return where an error was raised, as `FILE:LINE in FUNCTION`; empty if it never was."""
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(None if error is None else error.__traceback__)
    if not frames:
        return ""
    last = frames[-1]
    return f"{last.filename}:{last.lineno} in {last.name}"
