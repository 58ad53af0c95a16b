"""A capture: one compressed file with everything that scheduling depends on.

gzip over JSON, one line per kind after a first line that says what the file is. Objects pass
through this project's types, which know only fields that matter to scheduling: commands, env and
the like are gone by then. Of annotations those stay that some rule reads.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubesched.api.base import ApiObject
from kubesched.api.kinds import by_api_version_kind, kind_of
from kubesched.api.time import parse_time
from kubesched.explain.clusters.anonymizing import Anonymizer
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.explain.clusters.sources import SCHEDULING_KINDS
from kubesched.foundation.util.bounded_file import read_bounded, unzipped
from kubesched.foundation.util.whole_file import write_whole

__all__ = ["Capture", "read_capture", "write_capture"]

FORMAT: Final = "kubesched-capture/1"
# Annotations that scheduling, or what it waits for, reads.
_READ_ANNOTATIONS: Final = (
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "storageclass.kubernetes.io/",
    "resource.kubernetes.io/",
    "storage.alpha.kubernetes.io/",
    "kubesched.dev/",
    "kubesched.io/",
)
_GZIP_LEVEL: Final = 5


class _Header(msgspec.Struct, omit_defaults=True):
    format: str = ""
    taken: str = ""
    anonymized: bool = False
    unknown: tuple[str, ...] = ()
    configuration: Any = None  # the content of kube-scheduler's configuration file
    queue: Any = None  # of a running kubesched


class _Section(msgspec.Struct):
    """The first part of a line: the kind of the objects after it."""

    api_version: str
    kind: str
    items: msgspec.Raw


class Capture(msgspec.Struct, frozen=True):
    """A cluster as it was at one moment."""

    objects: tuple[ApiObject, ...]
    taken: str = ""  # RFC 3339
    unknown: tuple[str, ...] = ()  # kinds that could not be read
    configuration: Any = None
    queue: Any = None
    anonymized: bool = False

    @property
    def taken_ns(self) -> int:
        """When the capture was taken; 0 if it does not have the time."""
        return parse_time(self.taken) if self.taken else 0


def write_capture(capture: Capture, path: Path, *, anonymize: bool = False) -> int:
    """Write the file atomically; return the number of its objects."""
    order = {kind.type: number for number, kind in enumerate(SCHEDULING_KINDS)}
    by_kind: dict[type[Any], list[Any]] = {}
    for each in capture.objects:
        if type(each) in order:
            by_kind.setdefault(type(each), []).append(_pruned(each))
    hide = Anonymizer() if anonymize else None
    header = _Header(
        FORMAT, capture.taken, anonymize, capture.unknown, capture.configuration, capture.queue
    )
    if hide is not None:
        header.queue = hide.queue(header.queue)
    lines = [msgspec.json.encode(header)]
    for type_ in sorted(by_kind, key=order.__getitem__):
        kind = kind_of(type_)
        items: Any = by_kind[type_]
        if hide is not None:
            items = [hide.document(msgspec.to_builtins(each)) for each in items]
        section = _Section(kind.api_version, kind.kind, msgspec.Raw(msgspec.json.encode(items)))
        lines.append(msgspec.json.encode(section))
    write_whole(path, gzip.compress(b"\n".join(lines) + b"\n", _GZIP_LEVEL, mtime=0))
    return sum(map(len, by_kind.values()))


def read_capture(path: Path) -> Capture:
    """Read a capture.

    Raises:
        ExplainError: the file is none, or of a later form.
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


def _pruned(each: Any) -> Any:
    """Return the object without the fields that scheduling does not read."""
    metadata = each.metadata
    annotations = {
        key: value
        for key, value in metadata.annotations.items()
        if key.startswith(_READ_ANNOTATIONS)
    }
    if len(annotations) == len(metadata.annotations):
        return each
    return replace(each, metadata=replace(metadata, annotations=annotations))
