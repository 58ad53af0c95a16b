"""Structured logging: a constant message and named fields, over the standard library.

    log = get_logger(__name__)
    log.info("Successfully bound pod to node", pod=pod, node="node-3")

prints `Successfully bound pod to node pod=default/web-1 node=node-3`. Values are turned into
text only if a handler prints the record; a line below the current level costs one comparison.
A value that has `metadata` with a name is shown as `namespace/name`, or `name` alone.

Detail levels 1 to 10 are those of the reference's `-v` flag: a line at detail 4 appears at
verbosity 4 and above. They map to the standard levels just below INFO. `set_verbosity` may
give single modules, by the name of their file, a level of their own. Handlers that want the
parts find them in `record.msg.message` and `record.msg.fields`; `util.log_output` has some.
"""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from kubesched.errors import text_of

__all__ = ["LogMessage", "Logger", "format_field", "get_logger", "set_verbosity"]

_ROOT = "kubesched"
_INFO = logging.INFO
_NEEDS_QUOTES = frozenset(' "=\\')

# Patterns of module names with their verbosity; loggers made later obey them too.
_modules: list[tuple[str, int]] = []


def get_logger(name: str) -> Logger:
    """Return the logger of a module."""
    logger = logging.getLogger(name)
    _apply_modules(logger)
    return Logger(logger)


def set_verbosity(verbosity: int, modules: Iterable[tuple[str, int]] = ()) -> None:
    """Show lines up to this level of detail; 0 shows only those without a level.

    `modules` are patterns with a verbosity of their own, which can only raise it: `queue*` matches
    names of files, `backend/*` matches paths. The first matching pattern applies.
    """
    root = logging.getLogger(_ROOT)
    had_modules = bool(_modules)
    _modules[:] = modules
    root.setLevel(_level(verbosity))
    if not _modules and not had_modules:
        return
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger) and logger.name.startswith(f"{_ROOT}."):
            logger.setLevel(logging.NOTSET)
            _apply_modules(logger)


def _apply_modules(logger: logging.Logger) -> None:
    # Behind a slash, so that a pattern may begin at any folder.
    path = "/" + logger.name.replace(".", "/")
    for pattern, verbosity in _modules:
        if fnmatch.fnmatchcase(path, f"*/{pattern}") and (
            "/" in pattern or fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)
        ):
            logger.setLevel(min(_level(verbosity), logging.getLogger(_ROOT).level))
            return


def _level(detail: int) -> int:
    return max(1, _INFO - detail)


class LogMessage:
    """A message and its fields; the text is built on demand."""

    __slots__ = ("fields", "message")

    def __init__(self, message: str, fields: Mapping[str, object]) -> None:
        self.message = message
        self.fields = fields

    def __str__(self) -> str:
        parts = [f"{name}={format_field(value)}" for name, value in self.fields.items()]
        return " ".join((self.message, *parts))


class Logger:
    """Writes messages with fields to a standard logger."""

    __slots__ = ("_enabled", "_log")

    def __init__(self, logger: logging.Logger) -> None:
        self._enabled = logger.isEnabledFor
        self._log = logger.log

    def enabled(self, detail: int = 0) -> bool:
        """Whether lines of this detail are logged; guards fields that are expensive to compute."""
        # As `_level`, but cheaper: it is read several times for every pod.
        return self._enabled(_INFO - detail if detail < _INFO else 1)

    def detail(self, level: int, message: str, /, **fields: object) -> None:
        """Log at the reference's `V(level)`."""
        if self._enabled(_level(level)):
            self._log(_level(level), LogMessage(message, fields), stacklevel=2)

    def plain(self, level: int, line: str) -> None:
        """Log a line that is not a constant message with fields, at the reference's `V(level)`."""
        if self._enabled(_level(level)):
            self._log(_level(level), "%s", line, stacklevel=2)

    def info(self, message: str, /, **fields: object) -> None:
        if self._enabled(logging.INFO):
            self._log(logging.INFO, LogMessage(message, fields), stacklevel=2)

    def warning(self, message: str, /, **fields: object) -> None:
        if self._enabled(logging.WARNING):
            self._log(logging.WARNING, LogMessage(message, fields), stacklevel=2)

    def error(self, message: str, /, *, exc: BaseException | None = None, **fields: object) -> None:
        """Log a failure; `exc` is shown as the field `err`, its traceback at detail 4 and up."""
        if self._enabled(logging.ERROR):
            if exc is not None:
                fields["err"] = exc
            shown = exc if exc is not None and self.enabled(4) else None
            self._log(logging.ERROR, LogMessage(message, fields), exc_info=shown, stacklevel=2)

    def exception(self, message: str, exc: BaseException, /, **fields: object) -> None:
        """Log a failure that is a bug in the code that ran, with its traceback."""
        if self._enabled(logging.ERROR):
            fields["err"] = exc
            self._log(logging.ERROR, LogMessage(message, fields), exc_info=exc, stacklevel=2)


def format_field(value: object) -> str:
    """Return the text of one field, quoted if it could be misread."""
    metadata: Any = getattr(value, "metadata", None)
    if metadata is not None and (name := getattr(metadata, "name", None)) is not None:
        namespace = getattr(metadata, "namespace", "")
        return f"{namespace}/{name}" if namespace else str(name)
    if isinstance(value, BaseException):
        value = text_of(value) or type(value).__name__
    text = str(value)
    if not text or not text.isprintable() or not _NEEDS_QUOTES.isdisjoint(text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return text
