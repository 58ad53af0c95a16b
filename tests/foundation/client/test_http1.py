"""HTTP/1.1 as bytes: the requests, and responses that arrive in arbitrary pieces."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.foundation.client.http1 import AnswerReader, HttpError, encode_fields, encode_request
from kubesched.foundation.client.transport import ServerResponse


def read(*pieces: bytes) -> tuple[ServerResponse | None, AnswerReader]:
    """Return the response parsed from the pieces, if complete, and the state of the reader."""
    reader = AnswerReader()
    answer = None
    for piece in pieces:
        assert answer is None, "an answer that is whole gets nothing more"
        answer = reader.feed(piece)
    return answer, reader


# -- requests --------------------------------------------------------------------------


def test_a_request_has_its_headers_and_the_length_of_its_body() -> None:
    fields = encode_fields({"Host": "h:1", "Accept": "*/*"})
    sent = encode_request("POST", "/api/v1/x?a=b", fields, b'{"a":1}')
    assert sent == (
        b"POST /api/v1/x?a=b HTTP/1.1\r\nHost: h:1\r\nAccept: */*\r\nContent-Length: 7\r\n\r\n"
        b'{"a":1}'
    )


@pytest.mark.parametrize(
    ("method", "want"),
    [("GET", b""), ("POST", b"Content-Length: 0\r\n"), ("DELETE", b"Content-Length: 0\r\n")],
)
def test_without_a_body_only_a_get_has_no_content_length(method: str, want: bytes) -> None:
    head = f"{method} / HTTP/1.1\r\nHost: h\r\n".encode()
    assert encode_request(method, "/", encode_fields({"Host": "h"})) == head + want + b"\r\n"


@pytest.mark.parametrize(
    ("target", "header"),
    [
        ("/a b", "x"),
        ("/a\r\nX: y", "x"),
        ("/", "Bearer token\r\nX: y"),
        ("/", "Bearer token\n"),
        ("/", "Bearer\rtoken"),
    ],
)
def test_line_breaks_in_targets_and_headers_are_refused(target: str, header: str) -> None:
    with pytest.raises(HttpError):
        encode_request("GET", target, encode_fields({"Authorization": header}))


# -- answers ---------------------------------------------------------------------------

WITH_LENGTH = b"HTTP/1.1 201 Created\r\ncontent-length: 5\r\nRetry-after:  7 \r\n\r\nhello"
IN_CHUNKS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\nhe\r\n3;name=value\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
)
AFTER_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n" + WITH_LENGTH
NOTHING = b"HTTP/1.1 204 No Content\r\n\r\n"

WHOLE = {
    "with a length": (WITH_LENGTH, 201, b"hello"),
    "in chunks": (IN_CHUNKS, 200, b"hello"),
    "after a preliminary one": (AFTER_CONTINUE, 201, b"hello"),
    "without a body": (NOTHING, 204, b""),
    "with an empty body": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "without a reason": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
}


@pytest.mark.parametrize(("sent", "status", "body"), WHOLE.values(), ids=WHOLE)
def test_an_answer_is_whole_at_its_last_byte(sent: bytes, status: int, body: bytes) -> None:
    answer, reader = read(sent)
    assert answer is not None
    assert (answer.status, answer.body, reader.keeps_connection) == (status, body, True)
    # But not before, however the bytes are split.
    single, _ = read(*(sent[at : at + 1] for at in range(len(sent))))
    assert single == answer


def test_header_names_are_in_their_usual_spelling() -> None:
    answer, _ = read(WITH_LENGTH)
    assert answer is not None
    assert answer.headers == {"Content-Length": "5", "Retry-After": "7"}


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
    ],
    ids=["the server closes", "an old server", "bytes without a request"],
)
def test_a_connection_is_not_used_again(head: bytes) -> None:
    answer, reader = read(head)
    assert answer is not None
    assert answer.body == b"ok"
    assert not reader.keeps_connection


def test_a_header_that_comes_twice_has_both_values() -> None:
    head = b'HTTP/1.1 200 OK\r\nwarning: 299 - "a"\r\nContent-Length: 0\r\nWarning: 299 - "b"\r\n'
    answer, reader = read(head + b"Connection: Keep-Alive\r\nConnection: close\r\n\r\n")
    assert answer is not None
    assert answer.headers["Warning"] == '299 - "a", 299 - "b"'
    assert not reader.keeps_connection


def test_an_answer_of_unknown_length_ends_with_the_connection() -> None:
    answer, reader = read(b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo")
    assert answer is None
    answer = reader.end()
    assert answer is not None
    assert (answer.body, reader.keeps_connection) == (b"hello", False)


@pytest.mark.parametrize("sent", [WITH_LENGTH[:-1], IN_CHUNKS[:-1], b"HTTP/1.1 2", b""])
def test_a_truncated_response_is_an_error(sent: bytes) -> None:
    answer, reader = read(sent)
    assert answer is None
    assert reader.end() is None


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello",
        b"x" * 300_000,
    ],
)
def test_malformed_http_responses_are_refused(sent: bytes) -> None:
    with pytest.raises(HttpError):
        read(sent)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(1, 80), min_size=1), st.data())
def test_pieces_make_no_difference(body: bytes, sizes: list[int], data: st.DataObject) -> None:
    chunks, at = [], 0
    for size in sizes:
        if piece := body[at : at + size]:
            chunks.append(b"%x\r\n%s\r\n" % (len(piece), piece))
        at += size
    if rest := body[at:]:
        chunks.append(b"%X\r\n%s\r\n" % (len(rest), rest))
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(chunks)
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    for sent in (chunked + b"0\r\n\r\n", plain):
        cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=6).map(sorted))
        edges = [0, *cuts, len(sent)]
        pieces = [sent[a:b] for a, b in pairwise(edges) if a != b]
        answer, reader = read(*pieces)
        assert answer is not None
        assert (answer.body, reader.keeps_connection) == (body, True)


def test_a_reader_releases_the_body_of_its_response() -> None:
    body = b"x" * 100_000
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
    answer, reader = read(head + body[:50_000], body[50_000:])
    assert answer is not None
    assert answer.body == body
    held = gc.get_referents(reader)
    assert not any(body[:10] in bytes(each) for each in held if isinstance(each, bytearray))
    assert not any(each for each in held if isinstance(each, list))
