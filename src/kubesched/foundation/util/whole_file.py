"""Replaces files atomically: a reader sees the old content or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["followed", "replaced_whole", "write_whole"]


@contextlib.contextmanager
def replaced_whole(path: Path) -> Iterator[Path]:
    """Open a temporary file that replaces `path` when the block succeeds.

    A link stays, and its target is replaced. A pipe or a device is opened directly, because it must
    not be replaced.

    Raises:
        OSError: writing failed; the old file is unchanged.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        yield path
        return
    whole = followed(path)
    partial = whole.with_name(f"{whole.name}.part")
    try:
        _create(partial)
        yield partial
        partial.replace(whole)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def _create(partial: Path) -> None:
    """Create an empty file. A link in its place is removed, not followed."""
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))


def followed(path: Path) -> Path:
    """Resolve the links of a path. Raises OSError for a circle."""
    with contextlib.suppress(RuntimeError):  # raised for a circle before Python 3.13
        target = path.resolve()
        if not target.is_symlink():  # Python 3.13 and later return a link of the circle
            return target
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def write_whole(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace the content of a file; see `replaced_whole`.

    With a `mode` the file is created with these permissions. A pipe or a device keeps its own.
    """
    with replaced_whole(path) as file:
        if mode is None or (file.exists() and not file.is_file()):
            file.write_bytes(content)
            return
        file.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(file, flags, mode), "wb") as opened:
            opened.write(content)
