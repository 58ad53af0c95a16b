from __future__ import annotations

import asyncio

from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.foundation.client.informer_factory import NON_TERMINAL_PODS, InformerFactory
from kubesched.foundation.util.clock import ManualClock, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from tests.foundation.client.fake_api_server import FakeApiServer


def test_a_kind_has_one_informer() -> None:
    factory = InformerFactory(FakeApiServer().access, ManualClock(), 0)
    assert factory.informer(Pod) is factory.informer(Pod)
    assert factory.lister(Pod) is factory.informer(Pod).store
    assert [informer.kind for informer in factory.components()] == [Pod]


def test_requesting_a_lister_starts_a_watch_of_the_kind() -> None:
    factory = InformerFactory(FakeApiServer().access, ManualClock(), 0)
    assert factory.components() == ()
    factory.lister(Node)
    factory.lister(Pod)
    assert [informer.kind for informer in factory.components()] == [Node, Pod]


def test_options_hold_for_their_kind() -> None:
    async def main() -> list[str]:
        server = FakeApiServer()
        server.put("a")
        factory = InformerFactory(
            server.access, current_clock(), 0, options={Pod: NON_TERMINAL_PODS}
        )
        pods = factory.lister(Pod)
        assert not factory.has_synced
        async with running(*factory.components()):
            await factory.wait_for_sync()
            assert factory.has_synced
            await asyncio.sleep(1)
            assert [found.metadata.name for found in pods.list()] == ["a"]
        return [options["field_selector"] for _, options in server.calls]

    assert run(main) == ["status.phase!=Succeeded,status.phase!=Failed"] * 2
