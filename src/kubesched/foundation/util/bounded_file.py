"""Files that users name, read to an end that there is: `/dev/zero` has none.

Without one a process takes all memory of the machine before anybody can say what is wrong.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
from pathlib import Path
from typing import Final

__all__ = ["MOST_BYTES", "MOST_SETTINGS_BYTES", "read_bounded", "read_bounded_text", "unzipped"]

# Of objects, captures and traces.
MOST_BYTES: Final = 1024 * 1024 * 1024
# Of configurations, kubeconfigs and certificates.
MOST_SETTINGS_BYTES: Final = 64 * 1024 * 1024
_CHUNK: Final = 1024 * 1024


def read_bounded(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """All of a file.

    Raises:
        OSError: it cannot be read, or is larger than `most` bytes. It has the name of the file.
    """
    content = bytearray()
    try:
        with Path(path).open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                content += chunk
                if len(content) > most:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    except OSError as exc:
        if exc.filename is None:  # it could be opened, and then not be read
            exc.filename = str(path)
        raise
    return bytes(content)


def read_bounded_text(
    path: str | os.PathLike[str], encoding: str = "utf-8", most: int = MOST_BYTES
) -> str:
    """All of a text file, with its ends of lines as Python has them.

    Raises:
        OSError: it cannot be read, or is larger than `most` bytes.
        UnicodeDecodeError: it is no text.
    """
    return io.TextIOWrapper(io.BytesIO(read_bounded(path, most)), encoding=encoding).read()


def unzipped(content: bytes, most: int = MOST_BYTES) -> bytes:
    """What was compressed with gzip.

    Raises:
        OSError: it is none, or more than `most` bytes.
        EOFError, zlib.error: it is damaged.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return found
