"""The longest delay that a server's Retry-After may impose."""

from __future__ import annotations

import pytest

from kubesched.foundation.client.api_failures import refusal, retry_after_ns
from kubesched.foundation.client.transport import ServerResponse
from kubesched.foundation.util.clock import SECOND

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
    answer = ServerResponse(429, b"", {"Retry-After": text})
    assert retry_after_ns(answer, 0) == want
    assert refusal(answer).code == 429


def test_the_text_of_a_refusal_is_truncated() -> None:
    said = b'{"kind":"Status","status":"Failure","code":403,"message":"' + b"m" * 5_000_000 + b'"}'
    error = refusal(ServerResponse(403, said))
    assert error.code == 403
    assert len(str(error)) <= 16 * 1024
    assert str(error).endswith("mmm...")
