"""A written file has either its old content or the whole new one."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from kubesched.foundation.util.whole_file import replaced_whole, write_whole


def test_a_file_is_created_or_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"one", b"two"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_preserves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with contextlib.suppress(RuntimeError), replaced_whole(path) as partial:
        partial.write_bytes(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"before")
    link.symlink_to(real)
    write_whole(link, b"after")
    assert link.is_symlink()
    assert real.read_bytes() == b"after"


def test_a_pipe_as_output_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"content")
    reader.join()
    assert read == [b"content"]
    assert pipe.is_fifo()


def test_a_folder_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"")


@pytest.mark.parametrize("mode", [None, 0o600])
def test_a_planted_link_is_not_followed(mode: int | None, tmp_path: Path) -> None:
    """Another user of the folder may have made a link with the temporary name."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "file.part").symlink_to(victim)
    write_whole(tmp_path / "file", b"content", mode=mode)
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "file").read_bytes() == b"content"
    assert not (tmp_path / "file").is_symlink()
