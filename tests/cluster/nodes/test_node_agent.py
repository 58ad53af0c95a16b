"""Created nodes become ready, and fields that a client sets on a node stay."""

from __future__ import annotations

from kubesched.api import Node, ObjectMeta
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.nodes.node_agent import NodeAgent
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from kubesched.testing import make_node


def ready(node: Node) -> list[str]:
    return [each.status for each in node.status.conditions if each.type == "Ready"]


def test_a_new_node_becomes_ready_and_a_sick_one_stays_sick() -> None:
    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(), clock)
        await api.create(Node(metadata=ObjectMeta(name="early")))
        async with running(NodeAgent(api, clock)):
            await api.create(Node(metadata=ObjectMeta(name="late")))
            patch = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
            await api.create(make_node("sick", resource_version=""))
            await api.patch(Node, "sick", None, patch, subresource="status")
            await clock.sleep(1)
            states = {name: ready(await api.get(Node, name)) for name in ("early", "late", "sick")}
        assert states == {"early": ["True"], "late": ["True"], "sick": ["Unknown"]}

    run(main)
