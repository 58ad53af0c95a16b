"""Decoding of responses of extenders (docs/reference/04 §18.2)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.foundation.client.extender_client import ExtenderClient, ExtenderError
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from kubesched.foundation.util.clock import SECOND
from kubesched.scheduler.extenders.answers import (
    FilterAnswer,
    MetaVictims,
    read_bind_error,
    read_filter,
    read_preemption,
    read_scores,
)

encode = msgspec.json.encode
NODE = {"metadata": {"name": "n1"}}

FILTERS: dict[str, tuple[Any, FilterAnswer]] = {
    "nothing": ({}, FilterAnswer(None, None, {}, {}, "")),
    "null": (None, FilterAnswer(None, None, {}, {}, "")),
    "nulls": (
        {"Nodes": None, "NodeNames": None, "FailedNodes": None, "Error": None},
        FilterAnswer(None, None, {}, {}, ""),
    ),
    "nodes": (
        {"Nodes": {"items": [NODE]}},
        FilterAnswer([b'{"metadata":{"name":"n1"}}'], None, {}, {}, ""),
    ),
    "a list of nodes without items": ({"Nodes": {}}, FilterAnswer([], None, {}, {}, "")),
    "names": ({"NodeNames": ["a", "b"]}, FilterAnswer(None, ["a", "b"], {}, {}, "")),
    "keys in any case": (
        {"nodenames": ["a"], "FAILEDNODES": {"N": "m"}, "error": "e"},
        FilterAnswer(None, ["a"], {"N": "m"}, {}, "e"),
    ),
    "of keys that differ in case the last one counts": (
        {"Error": "a", "error": "b"},
        FilterAnswer(None, None, {}, {}, "b"),
    ),
    "what is not known is ignored": (
        {"FailedAndUnresolvableNodes": {"n": "m"}, "Extra": [1]},
        FilterAnswer(None, None, {}, {"n": "m"}, ""),
    ),
}


@pytest.mark.parametrize(("answer", "want"), FILTERS.values(), ids=FILTERS)
def test_filter(answer: Any, want: FilterAnswer) -> None:
    assert read_filter(encode(answer)) == want


def test_scores() -> None:
    answer = [{"Host": "n1", "Score": 5}, {"host": "n2", "score": -3}, {"Host": "n3"}, None]
    assert read_scores(encode(answer)) == [("n1", 5), ("n2", -3), ("n3", 0), ("", 0)]
    assert read_scores(b"null") == []


def test_bind() -> None:
    assert read_bind_error(b"{}") == ""
    assert read_bind_error(b'{"error":"no"}') == "no"


def test_preemption() -> None:
    answer = {
        "nodeNameToMetaVictims": {
            "n1": {"Pods": [{"UID": "a"}, {"uid": "b"}], "NumPDBViolations": 2},
            "n2": {"pods": None},
            "n3": None,
        }
    }
    assert read_preemption(encode(answer)) == {
        "n1": MetaVictims(("a", "b"), 2),
        "n2": MetaVictims((), 0),
        "n3": MetaVictims((), 0),
    }
    assert read_preemption(b"{}") == {}


MISMATCHES: dict[str, tuple[Any, Any, str]] = {
    "a list for a filter": (
        read_filter,
        [],
        "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult",
    ),
    "a text for names": (
        read_filter,
        {"NodeNames": "n1"},
        "json: cannot unmarshal string into Go struct field ExtenderFilterResult.NodeNames "
        "of type []string",
    ),
    "a number for an error": (
        read_bind_error,
        {"Error": 1},
        "json: cannot unmarshal number into Go struct field ExtenderBindingResult.Error "
        "of type string",
    ),
    "an object for scores": (
        read_scores,
        {},
        "json: cannot unmarshal object into Go value of type v1.HostPriorityList",
    ),
    "a fraction for a score": (
        read_scores,
        [{"Host": "n", "Score": 1.5}],
        "json: cannot unmarshal number 1.5 into Go struct field HostPriority.Score of type int64",
    ),
    "a score beyond all measure": (
        read_scores,
        [{"Host": "n", "Score": 2**63}],
        "json: cannot unmarshal number 9223372036854775808 into Go struct field "
        "HostPriority.Score of type int64",
    ),
}


@pytest.mark.parametrize(("read", "answer", "text"), MISMATCHES.values(), ids=MISMATCHES)
def test_values_of_other_types(read: Any, answer: Any, text: str) -> None:
    with pytest.raises(ExtenderError) as caught:
        read(encode(answer))
    assert str(caught.value) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "Nodes",
                    "items",
                    "NodeNames",
                    "FailedNodes",
                    "Error",
                    "Host",
                    "Score",
                    "Pods",
                    "UID",
                    "NodeNameToMetaVictims",
                    "NumPDBViolations",
                    "x",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from([read_filter, read_scores, read_bind_error, read_preemption]))
def test_random_extender_responses_are_decoded_or_refused(answer: Any, read: Any) -> None:
    with contextlib.suppress(ExtenderError):
        read(encode(answer))


DEEP = b'{"a":' * 200_000 + b"1" + b"}" * 200_000
HOSTILE = {
    "deep": DEEP,
    "a deep list": b"[" * 200_000 + b"]" * 200_000,
    "deep names": b'{"NodeNames":' + DEEP + b"}",
    "a deep node": b'{"nodes":{"items":[' + DEEP + b"]}}",
    "no characters": b'{"error":"\xff"}',
    "half a character": b'{"error":"\\ud800"}',
    "a key that is no text": b'{"\xff":1}',
    "a number without measure": b'[{"Host":"a","Score":1e400}]',
    "a number of ten thousand digits": b"9" * 10_000,
    "a score beyond 64 bits": b'[{"Host":"a","Score":1' + b"0" * 30 + b"}]",
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("read", [read_filter, read_scores, read_bind_error, read_preemption])
def test_responses_that_cannot_be_decoded_are_extender_errors(read: Any, answer: bytes) -> None:
    """Other exceptions than ExtenderError would fail the pod even for ignorable extenders."""
    with contextlib.suppress(ExtenderError):
        read(answer)

    async def ask() -> None:
        with contextlib.suppress(ExtenderError):
            read(await ExtenderClient("http://x", Answering(answer), SECOND).post("v", b"{}"))

    asyncio.run(ask())


class Answering:
    """A transport to an extender with one fixed response."""

    host = base_url = "x"

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def send(self, request: OutgoingRequest) -> ServerResponse:
        return ServerResponse(200, self._body)

    def stream(self, request: OutgoingRequest) -> Any:
        raise AssertionError("the client does not stream from an extender")

    async def close(self) -> None:
        """Nothing is open."""
