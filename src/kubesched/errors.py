"""The one tree of exceptions.

    KubeschedError
    ├── ConfigError          what the user wrote cannot be used (file, flag, argument)
    │   └── ManifestError    an object in a user's file is broken (carries file and line)
    ├── ApiError             an API server refused or failed (carries the Status)
    ├── ExtenderError        an HTTP extender did not answer, or not so that it can be used
    ├── QuantityError        a text that is not a resource quantity
    ├── SelectorError        a label, field or node selector that cannot be built
    ├── CacheError           the scheduler cache was asked for an illegal transition
    ├── PluginError          a plugin broke its contract
    ├── DeadlockError        virtual time cannot go on: nothing runnable, no timer
    └── VirtualTimeError     a virtual loop was asked for sockets, threads or signals

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
    "place_of",
    "text_of",
]


class KubeschedError(Exception):
    """Anything this package raises on purpose."""


class ConfigError(KubeschedError):
    """What the user wrote cannot be used."""


class ManifestError(ConfigError):
    """An object in a user's file is broken; the text starts with `FILE:LINE:`."""


class QuantityError(KubeschedError, ValueError):
    """A text that is not a resource quantity."""


class SelectorError(KubeschedError, ValueError):
    """A selector that cannot be built from what was given."""


class CacheError(KubeschedError):
    """The scheduler cache was asked for a transition that its state does not allow."""


class PluginError(KubeschedError):
    """A plugin broke the contract of its extension point."""


class DeadlockError(KubeschedError):
    """Virtual time cannot go on: nothing is runnable and no timer is set.

    `waiting` has a line per task that is not done: its name and where it waits.
    """

    def __init__(self, message: str, waiting: tuple[str, ...] = ()) -> None:
        super().__init__("\n  ".join((message, *waiting)))
        self.waiting = waiting


class VirtualTimeError(KubeschedError, RuntimeError):
    """A virtual loop was asked for something only the real world has."""


def text_of(error: BaseException) -> str:
    """What an error says, also if it is of somebody else's making and fails to say it.

    Half characters, which have no bytes in UTF-8 and could be told to no server, are escaped.
    """
    try:
        text = str(error)
    except Exception:
        return type(error).__name__
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def place_of(error: BaseException | None) -> str:
    """Where an error first came up, as `FILE:LINE in FUNCTION`; empty if it was never raised."""
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(None if error is None else error.__traceback__)
    if not frames:
        return ""
    last = frames[-1]
    return f"{last.filename}:{last.lineno} in {last.name}"
