"""The fake extender behaves as documented."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from kubesched.foundation.client.transport import OutgoingRequest, TransportError
from kubesched.foundation.util import virtual_loop
from kubesched.testing.fakes.fake_extender import (
    ExtenderCall,
    FakeExtender,
    keep_nodes,
    score_nodes,
)

Json = dict[str, Any]


def test_the_extender_responds_over_the_network_and_records_calls() -> None:
    async def steps() -> None:
        async with (
            FakeExtender(bind=lambda arguments: {"Error": arguments["PodName"]}) as extender,
            ClientSession() as session,
        ):
            async with session.post(f"{extender.url}/any/path/bind", json={"PodName": "p"}) as got:
                assert (got.status, await got.json()) == (200, {"Error": "p"})
            async with session.post(f"{extender.url}/filter", json={}) as got:
                assert got.status == 404
            [call] = extender.calls
            assert isinstance(call, ExtenderCall)
            assert (call.verb, call.arguments, call.answer) == (
                "bind",
                {"PodName": "p"},
                {"Error": "p"},
            )
            assert call.headers["Content-Type"] == "application/json"

    asyncio.run(steps())


def test_the_extender_responds_through_its_transport() -> None:
    async def steps() -> None:
        extender = FakeExtender(filter=lambda _: {"NodeNames": []})
        transport = extender.transport(extender.settings("/x"))
        answer = await transport.send(OutgoingRequest("POST", "/filter", b"{}"))
        assert (answer.status, answer.body) == (200, b'{"NodeNames":[]}')
        extender.is_down = True
        with pytest.raises(TransportError):
            await transport.send(OutgoingRequest("POST", "/filter", b"{}"))

    virtual_loop.run(steps)


def test_filters_and_scores_answer_in_the_form_of_the_call() -> None:
    def node(name: str) -> Json:
        return {"metadata": {"name": name}}

    by_name: Json = {"Nodes": None, "NodeNames": ["a", "b"]}
    by_node: Json = {"Nodes": {"items": [node("a"), node("b")]}, "NodeNames": None}
    keep_a = keep_nodes(lambda name: name == "a", "no")
    assert keep_a(by_name) == {"NodeNames": ["a"], "FailedNodes": {"b": "no"}}
    assert keep_a(by_node) == {"Nodes": {"items": [node("a")]}, "FailedNodes": {"b": "no"}}
    want = [{"Host": "a", "Score": 1}, {"Host": "b", "Score": 1}]
    assert score_nodes(lambda _: 1)(by_name) == want
    assert score_nodes(lambda _: 1)(by_node) == want


def test_the_example_of_the_guide_works() -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "extenders.md").read_text()
    [example] = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    exec(compile(example, "docs/extenders.md", "exec"), {"__name__": "example"})
