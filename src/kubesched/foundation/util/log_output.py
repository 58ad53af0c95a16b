"""Log lines as the reference prints them: klog's text form, or JSON, to one or two streams.

    I0102 15:04:05.678901    4242 scheduler.py:123] "Starting" version="v1.36.4"
    {"ts":1735830245678.901,"caller":"scheduler/scheduler.py:123","msg":"Starting","v":0,...}

All lines are written to the error stream. With split streams only errors are; other lines are
written to the second stream, which may buffer them until it is flushed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, TextIO

import msgspec

from kubesched.errors import text_of
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.go_format import quote
from kubesched.foundation.util.logging import LogMessage, set_verbosity

__all__ = [
    "LONGEST_TEXT",
    "JsonFormatter",
    "KlogFormatter",
    "LogFlusher",
    "LogSettings",
    "SplitHandler",
    "add_pod_fields",
    "log_to",
]

_ROOT: Final = "kubesched"
# The maximum length of one field.
LONGEST_TEXT: Final = 64 * 1024
_SEVERITIES: Final = {logging.ERROR: "E", logging.WARNING: "W"}


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The verbosity, the format and the destination of log lines."""

    is_json: bool = False
    verbosity: int = 0
    modules: Sequence[tuple[str, int]] = ()
    split_streams: bool = False
    info_buffer_bytes: int = 0


def log_to(settings: LogSettings, errors: TextIO, infos: TextIO, process_id: int) -> SplitHandler:
    """Configure the package's logging; this replaces an earlier configuration."""
    handler = SplitHandler(
        errors,
        infos if settings.split_streams else None,
        settings.info_buffer_bytes,
    )
    handler.setFormatter(JsonFormatter() if settings.is_json else KlogFormatter(process_id))
    logger = logging.getLogger(_ROOT)
    for old in logger.handlers:
        old.close()
    logger.handlers[:] = [handler]
    logger.propagate = False
    set_verbosity(settings.verbosity, settings.modules)
    return handler


def add_pod_fields(pod_fields: Callable[[str], Mapping[str, object]]) -> None:
    """Add fields to the JSON log lines about a pod; they are computed from its uid."""
    for handler in logging.getLogger(_ROOT).handlers:
        if isinstance(handler.formatter, JsonFormatter):
            handler.formatter.pod_fields = pod_fields


class SplitHandler(logging.Handler):
    """Writes errors at once to one stream, and other lines to another, optionally buffered."""

    def __init__(self, errors: TextIO, infos: TextIO | None = None, buffer_bytes: int = 0) -> None:
        super().__init__()
        self._errors = errors
        self._infos = infos
        self._buffer_bytes = buffer_bytes if infos is not None else 0
        self._held: list[str] = []
        self._held_bytes = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n"
            if self._infos is None or record.levelno >= logging.ERROR:
                self._write(self._errors, line)
                return
            self._held.append(line)
            self._held_bytes += len(line.encode(errors="backslashreplace"))
            if self._held_bytes >= self._buffer_bytes:
                self.flush()
        except Exception:
            self.handleError(record)  # a log line that fails must not end the program

    def flush(self) -> None:
        """Write buffered lines."""
        if self._held and self._infos is not None:
            lines, self._held, self._held_bytes = "".join(self._held), [], 0
            self._write(self._infos, lines)

    def close(self) -> None:
        self.flush()
        super().close()

    def _write(self, stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()


class LogFlusher:
    """Flushes the log at least this often. A component: `run` until `stop`."""

    def __init__(self, handler: logging.Handler, clock: Clock, frequency_ns: int) -> None:
        self._handler, self._clock, self._frequency_ns = handler, clock, frequency_ns
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        while not await self._clock.wait(self._stopping, timeout_ns=self._frequency_ns):
            self._handler.flush()
        self._handler.flush()

    def stop(self) -> None:
        self._stopping.set()


class KlogFormatter(logging.Formatter):
    """The text form: severity, time, process, place, then the message and its fields."""

    def __init__(self, process_id: int) -> None:
        super().__init__()
        self._process_id = process_id

    def format(self, record: logging.LogRecord) -> str:
        severity = _SEVERITIES.get(record.levelno, "I")
        moment = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1_000_000)
        head = f"{severity}{moment}.{micros:06d} {self._process_id:7d} "
        place = f"{record.filename}:{record.lineno}] "
        return head + place + _klog_message(record) + _traceback(self, record)


def _klog_message(record: logging.LogRecord) -> str:
    if not isinstance(record.msg, LogMessage):
        return record.getMessage()
    parts = [quote(record.msg.message)]
    for name, value in record.msg.fields.items():
        parts.append(f"{name}={_klog_value(value)}")
    return " ".join(parts)


def _klog_value(value: object) -> str:
    if (reference := _reference(value)) is not None:
        return quote("/".join(reversed(reference.values())))
    plain = _plain(value)
    if isinstance(plain, str):
        # klog sets text of several lines apart, so that it stays readable.
        lines = plain.rstrip("\n").split("\n")
        if len(lines) > 1:
            return "<\n" + "".join(f"\t{line}\n" for line in lines) + " >"
        return quote(plain)
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


class JsonFormatter(logging.Formatter):
    """One JSON object per line; errors have no `v`."""

    # Returns further fields for lines about a pod, by its uid; None: there are none.
    pod_fields: Callable[[str], Mapping[str, object]] | None = None

    def format(self, record: logging.LogRecord) -> str:
        path = PurePath(record.pathname)
        entry: dict[str, Any] = {
            "ts": round(record.created * 1000, 4),
            "caller": f"{path.parent.name}/{path.name}:{record.lineno}",
        }
        fields: dict[str, object] = {}
        if isinstance(record.msg, LogMessage):
            entry["msg"], fields = record.msg.message, dict(record.msg.fields)
        else:
            entry["msg"] = record.getMessage()
        if record.levelno < logging.ERROR:
            entry["v"] = max(0, logging.INFO - record.levelno)
        entry |= {name: _plain(value) for name, value in fields.items()}
        if self.pod_fields is not None:
            uid = getattr(getattr(fields.get("pod"), "metadata", None), "uid", "")
            if uid:
                entry |= self.pod_fields(uid)
        if stack := _traceback(self, record):
            entry["stacktrace"] = stack.lstrip("\n")
        return json.dumps(entry, separators=(",", ":"), ensure_ascii=False)


def _reference(value: object) -> dict[str, str] | None:
    """Name and namespace of a Kubernetes object; None for anything else."""
    metadata: Any = getattr(value, "metadata", None)
    if metadata is None or (name := getattr(metadata, "name", None)) is None:
        return None
    namespace = getattr(metadata, "namespace", "")
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _plain(value: object) -> Any:
    """The value in types that JSON has; Kubernetes objects become references to them."""
    if (reference := _reference(value)) is not None:
        return reference
    match value:
        case str():
            return _shortened(value)
        case None | bool() | int() | float():
            return value
        case BaseException():
            return _shortened(text_of(value) or type(value).__name__)
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
    return _shortened(str(value))


def _shortened(text: str) -> str:
    """Truncate a text to a readable length, because it may come from outside."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if not record.exc_info:
        return ""
    return f"\n{formatter.formatException(record.exc_info)}"
