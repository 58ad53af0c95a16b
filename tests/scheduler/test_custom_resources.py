"""Plugins that wait for custom resources: events of them wake the pods."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec

from kubesched.api import Node, Pod
from kubesched.api.custom_kinds import CustomObject, custom_kind
from kubesched.api.kinds import kind_of
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.cluster.apiserver.rules.resources.served_resources import custom_resource
from kubesched.foundation.client.targets import target
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    NodeInfo,
    Plugin,
    Status,
)
from kubesched.scheduler.events.watched_kinds import watched_kind
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod

WIDGETS = "widgets.v1.example.com"


class NeedsWidget(Plugin):
    name = "NeedsWidget"
    there_is_one = False

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if NeedsWidget.there_is_one else Status.unschedulable("no widget")

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(WIDGETS, ActionType.ADD))]


async def create(api: LocalApi, made: Node | Pod) -> None:
    metadata = msgspec.structs.replace(made.metadata, resource_version="", uid="")
    await api.create(msgspec.structs.replace(made, metadata=metadata))


def test_a_custom_resource_wakes_the_pods_that_wait_for_it() -> None:
    async def main() -> tuple[str, str]:
        clock = current_clock()
        store = Store(random.Random(0))
        widgets = custom_resource("example.com", "v1", "Widget", "widgets", namespaced=False)
        store.register(widgets)
        api = LocalApi(store, clock)
        await create(api, make_node("n", cpu="2", memory="4Gi"))
        await create(api, make_pod("p", images=["i"]))
        profile: dict[str, Any] = {
            "schedulerName": "default-scheduler",
            "plugins": {"filter": {"enabled": [{"name": "NeedsWidget"}]}},
        }
        scheduler = Scheduler(
            api,
            clock,
            profiles=[profile],
            out_of_tree_registry={"NeedsWidget": NeedsWidget},
        )
        async with running(scheduler):
            await asyncio.sleep(60)
            before = (await api.get(Pod, "p", "default")).spec.node_name
            NeedsWidget.there_is_one = True
            store.create(widgets, None, {"metadata": {"name": "w"}}, clock.now_ns())
            await asyncio.sleep(15)
            after = (await api.get(Pod, "p", "default")).spec.node_name
        return before, after

    assert run(main) == ("", "n")


def test_a_custom_kind_exists_once_with_its_resource_path() -> None:
    kind = custom_kind(WIDGETS)
    assert kind is not None
    assert custom_kind(WIDGETS) is kind
    assert kind_of(kind.type) is kind
    assert issubclass(kind.type, CustomObject)
    assert target(kind, None) == "/apis/example.com/v1/widgets"


def test_names_that_are_no_resource_are_skipped() -> None:
    assert watched_kind("Widget") is None
    assert watched_kind("widgets.v1") is None
    assert watched_kind("Pod") is None
    assert watched_kind("*") is None
