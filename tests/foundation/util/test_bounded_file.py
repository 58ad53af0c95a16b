"""Files, including endless ones, are read up to a limit."""

from __future__ import annotations

import errno
import gzip
from pathlib import Path

import pytest

from kubesched.foundation.util.bounded_file import (
    bounded_lines,
    read_bounded,
    read_bounded_text,
    unzipped,
)


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\xef\xbb\xbfa\r\nb\n")
    assert read_bounded(file, 8) == b"\xef\xbb\xbfa\r\nb\n"
    assert read_bounded_text(file, "utf-8-sig") == "a\nb\n"


def test_files_that_are_too_large_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"123456789")
    for path in (file, Path("/dev/zero")):
        with pytest.raises(OSError, match="File too large") as refused:
            read_bounded(path, 8)
        assert refused.value.errno == errno.EFBIG


def test_a_small_file_that_unpacks_beyond_the_limit_is_refused() -> None:
    much = gzip.compress(bytes(1_000_000))
    assert unzipped(much, 1_000_000) == bytes(1_000_000)
    with pytest.raises(OSError, match="File too large"):
        unzipped(much, 999_999)
    with pytest.raises(OSError, match="Not a gzipped file"):
        unzipped(b"no")


def test_lines_are_read_up_to_a_bound(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(gzip.compress(b"a\n" * 500 + bytes(1_000_000)))
    with gzip.open(file) as whole:
        assert sum(map(len, bounded_lines(whole, 1_001_000))) == 1_001_000
    with gzip.open(file) as bomb, pytest.raises(OSError, match="File too large"):
        list(bounded_lines(bomb, 10_000))
