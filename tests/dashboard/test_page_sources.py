"""The page of a cluster that is still being read."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.dashboard.page_sources import dashboard_of_api
from kubesched.dashboard.sign_in import SignIn
from kubesched.explain.clusters.sources import SCHEDULING_KINDS, Reading
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.http.http_messages import Headers, Request
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.components import running
from kubesched.testing import make_node, make_pod
from tests.dashboard.page_harness import run

CLUSTER = (make_node("a", cpu="4"), make_pod("big", images=["i"], requests={"cpu": "9"}))
TARGET = "/dashboard/api/explanations/default/big"


def test_a_request_during_the_first_list_gets_an_answer_for_the_whole_cluster() -> None:
    async def work() -> None:
        api = LocalApi(Store(), RealClock())
        for each in CLUSTER:
            unborn: Any = replace(each.metadata, uid="", resource_version="")
            await api.create(replace(each, metadata=unborn))
        page, parts = dashboard_of_api(
            api,
            RealClock(),
            SignIn(is_open=True),
            title="",
            reading=Reading(SCHEDULING_KINDS),
        )
        informers = {each.kind: each for each in parts if isinstance(each, SharedInformer)}
        nodes = informers.pop(Node)
        async with running(*informers.values()):
            await informers[Pod].wait_for_sync()
            headers = Headers((("Host", "localhost"),))
            request = Request(method="GET", target=TARGET, path=TARGET, headers=headers)
            asked = asyncio.ensure_future(page.answer(request))
            await asyncio.sleep(0)  # the request comes before nodes were read
            async with running(nodes):
                answer = await asked
        assert "Insufficient cpu" in msgspec.json.decode(answer.body)["summary"]

    run(work)
