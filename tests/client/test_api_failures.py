"""How long a server may ask its clients to wait."""

from __future__ import annotations

import pytest

from kubesched.client.api_failures import refusal, retry_after_ns
from kubesched.client.transport import Answer
from kubesched.util.clock import SECOND

CASES = {
    "5": 5 * SECOND,
    "60": 60 * SECOND,
    "86400": 60 * SECOND,
    "999999999": 60 * SECOND,
    "9" * 5_000: None,
    "-1": None,
    "soon": None,
    "٣": None,
    "": None,
}


@pytest.mark.parametrize(("text", "want"), CASES.items(), ids=lambda each: str(each)[:12])
def test_retry_after(text: str, want: int | None) -> None:
    answer = Answer(429, b"", {"Retry-After": text})
    assert retry_after_ns(answer, 0) == want
    assert refusal(answer).code == 429
