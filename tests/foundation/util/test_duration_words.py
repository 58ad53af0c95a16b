"""Durations for people."""

from __future__ import annotations

import pytest

from kubesched.foundation.util.duration_words import duration_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.25, "250 ms"),
        (1, "1 s"),
        (2.54, "2.5 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (175, "2 min 55 s"),
        (179.6, "3 min"),
        (3599.7, "1 h"),
        (3_700, "1 h 2 min"),
        (86_399, "1 d"),
        (86_400 * 3 + 7_300, "3 d 2 h"),
    ],
)
def test_words(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words
