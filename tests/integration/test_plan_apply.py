"""`kubesched plan apply` on a server with authorization, with exactly the documented role."""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kubesched.api import Node, Pod
from kubesched.api.events import Event
from kubesched.cli.cluster_address import ClusterAddress, live_api
from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.takeover import Identity
from kubesched.explain import Snapshot
from kubesched.foundation.util.clock import MINUTE, RealClock
from kubesched.plan import consolidate
from kubesched.plan.applying.plan_application import apply_plan
from kubesched.plan.applying.plan_document import read_plan
from kubesched.plan.applying.plan_journal import PlanJournal
from tests.integration.test_explain_viewer import bound, grant, kubeconfig_of
from tests.plan.clusters import budget, node, pod_of, replica_set

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "plan.md"


def documented_role() -> dict[str, Any]:
    (block,) = re.findall(r"^<!-- role -->\n```yaml\n(.*?)^```", DOCUMENT.read_text(), re.S | re.M)
    role: dict[str, Any] = yaml.safe_load(block)
    return role


def test_the_documented_role_suffices(tmp_path: Path) -> None:
    owner = replica_set("web", 2, cpu="3", terminationGracePeriodSeconds=0)
    objects = [
        *map(node, "ab"),
        owner,
        *(pod_of(owner, number, there) for number, there in enumerate("ab")),
        budget("web", maxUnavailable=1),
    ]

    plan = read_plan(msgspec.json.encode(consolidate(Snapshot(objects))), "plan")

    async def main() -> None:
        embedded = EmbeddedCluster(RealClock(), random.Random(0), listen=Listen(), rbac=True)
        cluster = LiveCluster(embedded)
        await cluster.take_over(objects, Identity.KEPT)
        async with cluster.running():
            role = documented_role()
            name = role["metadata"]["name"]
            binding = bound("clusterrolebindings", "mover", "ClusterRole", name)
            await grant(embedded, [("clusterroles", role), binding])
            kubeconfig = kubeconfig_of(embedded, "mover", tmp_path / "mover")
            clock = RealClock()
            journal = PlanJournal.read(tmp_path / "journal", plan.digest, clock, writes=True)
            async with live_api(ClusterAddress(str(kubeconfig)), "plan apply") as api:
                done = await apply_plan(plan, api, journal, clock, longest_wave_ns=2 * MINUTE)
            assert done.is_complete, json.dumps(done.to_dict())
            (emptied,) = plan.emptied
            assert (await cluster.api.get(Node, emptied)).spec.unschedulable
            pods = (await cluster.api.list(Pod)).items
            assert len(pods) == 2
            assert emptied not in {pod.spec.node_name for pod in pods}
            reasons = {event.reason for event in (await cluster.api.list(Event)).items}
            assert {"PlanCordoned", "PlanEvicted", "PlanPlaced", "PlanEmptied"} <= reasons

    asyncio.run(main())
