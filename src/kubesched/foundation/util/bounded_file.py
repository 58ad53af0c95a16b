"""Reads files that users name, up to a maximum size.

A path may name an endless file such as `/dev/zero`, which would fill the memory of the machine.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

__all__ = [
    "MOST_BYTES",
    "MOST_SETTINGS_BYTES",
    "bounded_lines",
    "read_bounded",
    "read_bounded_text",
    "unzipped",
]

# For files with objects, captures and traces.
MOST_BYTES: Final = 1024 * 1024 * 1024
# For configurations, kubeconfigs and certificates.
MOST_SETTINGS_BYTES: Final = 64 * 1024 * 1024
_CHUNK: Final = 1024 * 1024


def read_bounded(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Read a whole file.

    Raises:
        OSError: the file cannot be read, or is larger than `most` bytes. It has the file name.
    """
    content = bytearray()
    try:
        with Path(path).open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                content += chunk
                if len(content) > most:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    except OSError as exc:
        if exc.filename is None:  # the file was opened, and reading failed
            exc.filename = str(path)
        raise
    return bytes(content)


def read_bounded_text(
    path: str | os.PathLike[str], encoding: str = "utf-8", most: int = MOST_BYTES
) -> str:
    """Read a whole text file, with universal line ends.

    Raises:
        OSError: the file cannot be read, or is larger than `most` bytes.
        UnicodeDecodeError: the file is not UTF-8 text.
    """
    return io.TextIOWrapper(io.BytesIO(read_bounded(path, most)), encoding=encoding).read()


def bounded_lines(file: BinaryIO | gzip.GzipFile, most: int = MOST_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file that is read piece by piece.

    Raises:
        OSError: the file has more than `most` bytes.
    """
    left = most
    while line := file.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        yield line


def unzipped(content: bytes, most: int = MOST_BYTES) -> bytes:
    """Decompress gzip data.

    Raises:
        OSError: the data is no gzip, or decompresses to more than `most` bytes.
        EOFError, zlib.error: the data is damaged.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return found
