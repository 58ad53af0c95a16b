"""Segments of a flight recording: files of frames, each with a length and a checksum.

    file:   magic, frame, frame, ...
    frame:  length (4 bytes), CRC-32 of the content (4 bytes), content: zlib over JSON lines

A process can be killed at any moment: the reader stops at the last whole frame. The first frame of
a file is a header, the next ones a snapshot, so every file can be read without the ones before it.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from kubesched.errors import KubeschedError

__all__ = ["MAGIC", "MOST_FRAME", "RecordingError", "SegmentReader", "SegmentWriter", "segments_of"]

MAGIC: Final = b"kubesched-recording/1\n"
_HEAD: Final = struct.Struct("<II")
_LEVEL: Final = 1  # compression level: the fastest
MOST_FRAME: Final = 256 * 1024 * 1024
_SUFFIX: Final = ".segment"
_PART: Final = ".part"


class RecordingError(KubeschedError):
    """A recording cannot be read or written; the message names the file."""


class SegmentWriter:
    """Writes frames to a temporary file, which `publish` renames to its final name."""

    def __init__(self, folder: Path, number: int) -> None:
        self._path = folder / f"{number:08}{_SUFFIX}"
        self._part = self._path.with_suffix(_PART)
        self._part.unlink(missing_ok=True)  # a link with this name must not be followed
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        self._file: BinaryIO = os.fdopen(os.open(self._part, flags, 0o600), "wb", buffering=0)
        self._file.write(MAGIC)
        self.size = len(MAGIC)

    def write(self, lines: Iterable[bytes]) -> None:
        """Write a frame; afterwards it is in the page cache of the operating system."""
        content = zlib.compress(b"\n".join(lines), _LEVEL)
        frame = _HEAD.pack(len(content), zlib.crc32(content)) + content
        rest = memoryview(frame)
        while rest:  # a write to a nearly full disk may be partial
            rest = rest[self._file.write(rest) or 0 :]
        self.size += len(frame)

    def publish(self) -> None:
        """Rename the file to its final name; its snapshot is complete."""
        self._part.replace(self._path)

    def close(self) -> None:
        self._file.close()


def segments_of(folder: Path) -> list[Path]:
    """Return the segments of a recording, the oldest first."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


class SegmentReader:
    """Reads the records of one segment. Afterwards `damage` gives the reason if it ends early."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.damage = ""

    def records(self) -> Iterator[list[Any]]:
        """Yield the records up to the last whole frame.

        Raises:
            RecordingError: the file cannot be read, or is no segment.
        """
        try:
            with self._path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise RecordingError(f"{self._path}: no segment of a recording")
                yield from self._frames(file)
        except OSError as error:
            raise RecordingError(f"{self._path}: cannot be read: {error.strerror}") from error

    def _frames(self, file: BinaryIO) -> Iterator[list[Any]]:
        decode = msgspec.json.Decoder(list[Any]).decode
        while head := file.read(_HEAD.size):
            place = file.tell() - len(head)
            if len(head) < _HEAD.size:
                self.damage = f"{self._path}: ends within a frame at byte {place}"
                return
            length, checksum = _HEAD.unpack(head)
            content = file.read(length) if length <= MOST_FRAME else b""
            if len(content) < length:
                self.damage = f"{self._path}: ends within a frame at byte {place}"
                return
            if zlib.crc32(content) != checksum:
                self.damage = f"{self._path}: wrong checksum of the frame at byte {place}"
                return
            try:
                records = list(map(decode, _unpacked(content).split(b"\n")))
            except (zlib.error, msgspec.MsgspecError) as error:
                self.damage = f"{self._path}: invalid frame at byte {place}: {error}"
                return
            yield from records


def _unpacked(content: bytes) -> bytes:
    """Decompress a frame.

    Raises:
        zlib.error: the content is damaged, or decompresses to more than a frame may have.
    """
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(content, MOST_FRAME)
    if not unpacking.eof:
        raise zlib.error(f"more than {MOST_FRAME:,} bytes, or an incomplete end")
    return unpacked
