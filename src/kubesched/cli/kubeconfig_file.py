"""Where a kubeconfig goes while a cluster runs."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kubesched.apiserver.http.kubeconfig import write_private
from kubesched.util.errors import KubeschedError

__all__ = ["kubeconfig_file"]


@contextlib.contextmanager
def kubeconfig_file(text: str, path: Path | None) -> Iterator[Path]:
    """Write a kubeconfig to a file, or to a temporary one that goes with the block.

    Raises:
        KubeschedError: the file cannot be written.
    """
    if path is not None:
        try:
            write_private(path, text)
        except OSError as exc:
            raise KubeschedError(f"cannot write {path}: {exc.strerror}") from exc
        yield path
        return
    descriptor, name = tempfile.mkstemp(prefix="kubesched-", suffix=".kubeconfig")
    os.close(descriptor)
    temporary = Path(name)
    try:
        write_private(temporary, text)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
