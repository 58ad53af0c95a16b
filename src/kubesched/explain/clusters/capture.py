"""A capture: one compressed file with everything that scheduling depends on.

The format is gzip over JSON: a header line, then one line per kind. Objects have only the fields
that scheduling reads (`read_fields.py`). The file mode allows access by the user only.
"""

from __future__ import annotations

import gzip
import itertools
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec

from kubesched.api.base import ApiObject
from kubesched.api.kinds import by_api_version_kind, kind_of
from kubesched.api.time import parse_time
from kubesched.explain.clusters.anonymizing import Anonymizer
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.explain.clusters.read_configuration import read_configuration_of
from kubesched.explain.clusters.read_fields import CAPTURED_KINDS, with_read_fields
from kubesched.foundation.util.bounded_file import read_bounded, unzipped
from kubesched.foundation.util.whole_file import write_whole

__all__ = ["Capture", "read_capture", "write_capture"]

FORMAT: Final = "kubesched-capture/1"
_GZIP_LEVEL: Final = 5


class _Header(msgspec.Struct, omit_defaults=True):
    format: str = ""
    taken: str = ""
    anonymized: bool = False
    unknown: tuple[str, ...] = ()
    configuration: Any = None  # the content of kube-scheduler's configuration file
    queue: Any = None  # the queue of a running kubesched


class _Section(msgspec.Struct):
    """The first part of a line: the kind of the objects after it."""

    api_version: str
    kind: str
    items: msgspec.Raw


class Capture(msgspec.Struct, frozen=True):
    """The state of a cluster at one moment."""

    objects: tuple[ApiObject, ...]
    taken: str = ""  # RFC 3339
    unknown: tuple[str, ...] = ()  # kinds that could not be read
    configuration: Any = None
    queue: Any = None
    anonymized: bool = False

    @property
    def taken_ns(self) -> int:
        """The time when the capture was taken; 0 if it is not recorded."""
        return parse_time(self.taken) if self.taken else 0


def write_capture(capture: Capture, path: Path, *, anonymize: bool = False) -> int:
    """Write the file atomically; return the number of its objects."""
    order = {kind.type: number for number, kind in enumerate(CAPTURED_KINDS)}
    by_kind: dict[type[Any], list[Any]] = {}
    for each in capture.objects:
        if type(each) in order:
            by_kind.setdefault(type(each), []).append(with_read_fields(each))
    configuration = read_configuration_of(capture.configuration)
    header = _Header(
        FORMAT, capture.taken, anonymize, capture.unknown, configuration, capture.queue
    )
    hide = None
    if anonymize:
        objects = itertools.chain.from_iterable(by_kind.values())
        hide = Anonymizer(objects, configuration, capture.queue)
        header.configuration = hide.plain(configuration)
        header.queue = hide.plain(capture.queue)
    lines = [msgspec.json.encode(header)]
    for type_ in sorted(by_kind, key=order.__getitem__):
        kind = kind_of(type_)
        items: Any = by_kind[type_]
        if hide is not None:
            items = map(hide.document, items)
        section = _Section(
            kind.api_version, kind.kind, msgspec.Raw(msgspec.json.encode(list(items)))
        )
        lines.append(msgspec.json.encode(section))
    content = gzip.compress(b"\n".join(lines) + b"\n", _GZIP_LEVEL, mtime=0)
    write_whole(path, content, mode=0o600)
    return sum(map(len, by_kind.values()))


def read_capture(path: Path) -> Capture:
    """Read a capture.

    Raises:
        ExplainError: the file is not a capture, or has a newer format.
    """
    try:
        content = unzipped(read_bounded(path))
        first, *rest = content.splitlines()
        header = msgspec.json.decode(first, type=_Header)
    except (OSError, EOFError, ValueError, zlib.error, msgspec.MsgspecError) as error:
        raise ExplainError(f"{path}: not a capture: {error}") from error
    if header.format != FORMAT:
        raise ExplainError(f"{path}: format {header.format!r} is not known here, only {FORMAT!r}")
    try:
        parse_time(header.taken or "1970-01-01T00:00:00Z")
    except ValueError as error:
        raise ExplainError(f"{path}:1: taken: {error}") from error
    objects: list[ApiObject] = []
    for number, line in enumerate(rest, start=2):
        try:
            section = msgspec.json.decode(line, type=_Section)
            kind = by_api_version_kind(section.api_version, section.kind)
            if kind is not None:
                objects += msgspec.json.decode(section.items, type=list[kind.type])  # type: ignore[name-defined]
        except msgspec.MsgspecError as error:
            raise ExplainError(f"{path}:{number}: {error}") from error
    return Capture(
        tuple(objects),
        header.taken,
        header.unknown,
        header.configuration,
        header.queue,
        header.anonymized,
    )
