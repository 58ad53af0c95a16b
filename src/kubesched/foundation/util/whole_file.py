"""Files that are either as they were or whole, and never half of each."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["followed", "replaced_whole", "write_whole"]


@contextlib.contextmanager
def replaced_whole(path: Path) -> Iterator[Path]:
    """Give a file to write to, which takes the place of `path` once the block has ended well.

    A link keeps pointing at its file. What is no plain file, such as a pipe or a device, is given
    as it is: it can be written to, and must not be replaced.

    Raises:
        OSError: it cannot be written; what was there is there still.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        yield path
        return
    whole = followed(path)
    partial = whole.with_name(f"{whole.name}.part")
    try:
        yield partial
        partial.replace(whole)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def followed(path: Path) -> Path:
    """Where the links of a path lead. Raises OSError if in a circle."""
    try:
        return path.resolve()
    except RuntimeError:  # what Python before 3.13 makes of it
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file; see `replaced_whole`."""
    with replaced_whole(path) as file:
        file.write_bytes(content)
