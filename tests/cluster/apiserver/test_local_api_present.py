"""`LocalApi.present`: the current objects for observers in the same process."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from kubesched.api import Node
from kubesched.api.core import ConfigMap
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.explain.clusters.sources import SCHEDULING_KINDS
from kubesched.foundation.util.clock import RealClock
from kubesched.testing import make_node


def test_objects_are_shared_and_unserved_kinds_are_empty() -> None:
    api = LocalApi(Store(), RealClock())
    node = make_node("a")
    made = asyncio.run(
        api.create(replace(node, metadata=replace(node.metadata, uid="", resource_version="")))
    )
    assert list(api.present(Node)) == [made]
    assert list(api.present(ConfigMap)) == []
    # Some kinds exist only with a feature gate.
    found = {each.kind for each in SCHEDULING_KINDS for _ in api.present(each.type)}
    assert "Node" in found
    assert "PodGroup" not in found
