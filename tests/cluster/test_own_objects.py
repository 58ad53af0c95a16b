"""A cluster starts and runs although its policies and quotas refuse objects."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from kubesched.api import Node
from kubesched.cluster.apiserver.store.admission_policies import (
    BINDING,
    POLICY,
    enforce_policies,
)
from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import RealClock, current_clock
from kubesched.foundation.util.components import running
from kubesched.testing import make_node
from tests.scheduler.hostile_object_harness import fresh

EVERYTHING = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "operations": ["CREATE", "UPDATE", "DELETE"],
    "resources": ["*"],
}
LABELLED = "has(object.metadata.labels) && 'team' in object.metadata.labels"


def refuse_everything(cluster: EmbeddedCluster) -> None:
    """Create a policy that every object needs a label, and a quota for no objects."""
    enforce_policies(cluster.store)
    store, now_ns = cluster.store, cluster.clock.now_ns()
    quotas = store.catalog.by_url("", "v1", "resourcequotas")
    hard = {"count/endpoints": "0", "count/endpointslices.discovery.k8s.io": "0", "pods": "0"}
    quota: dict[str, Any] = {"metadata": {"name": "none"}, "spec": {"hard": hard}}
    store.create(quotas, "default", quota, now_ns)
    constraints = {"resourceRules": [EVERYTHING]}
    spec = {"matchConstraints": constraints, "validations": [{"expression": LABELLED}]}
    store.create(POLICY, None, {"metadata": {"name": "team"}, "spec": spec}, now_ns)
    bound = {"policyName": "team", "validationActions": ["Deny"]}
    store.create(BINDING, None, {"metadata": {"name": "team"}, "spec": bound}, now_ns)


def test_the_next_start_publishes_the_new_address(tmp_path: Path) -> None:
    async def ports(change: Any = None) -> tuple[str, list[int]]:
        cluster = EmbeddedCluster(
            RealClock(), random.Random(0), data=tmp_path / "c.db", listen=Listen(tls=False)
        )
        async with cluster:
            if change is not None:
                change(cluster)
            found = [
                cluster.store.find(plural, "default/kubernetes")
                for plural in ("endpoints", "endpointslices.discovery.k8s.io")
            ]
            older, newer = found
            assert older is not None
            assert newer is not None
            published = [older["subsets"][0]["ports"][0]["port"], newer["ports"][0]["port"]]
            return cluster.url, published

    asyncio.run(ports(refuse_everything))
    url, published = asyncio.run(ports())
    port = int(url.rpartition(":")[2])
    assert published == [port, port]


def test_every_component_runs_on(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cluster = EmbeddedCluster(current_clock(), random.Random(0))
        await cluster.api.create(fresh(make_node("n0", cpu="8")))
        async with running(*cluster.parts):
            refuse_everything(cluster)
            await asyncio.sleep(120)
            assert (await cluster.api.get(Node, "n0")).metadata.name == "n0"

    virtual_loop.run(main())
