"""`kubesched run --shadow` as a process, with the role of the chart, beside another scheduler."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml

from kubesched.api import Pod, PriorityClass
from kubesched.api.events import Event
from kubesched.explain.shadow.shadow_entries import ShadowReport, ShadowVerdict
from kubesched.foundation.util.components import running
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from tests.integration.deployed_cluster import MONITOR, ROOT, STRANGER, Deployed, deployed
from tests.integration.helm_chart import one, render

# Reviews store nothing; they decide which users may read the endpoints.
REVIEWS = {
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
}
READS = {"get", "list", "watch"}


def shadow_rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = one(render({"mode": "shadow"}), "ClusterRole")["rules"]
    return found


def test_the_role_of_the_chart_has_no_verb_that_writes() -> None:
    for rule in shadow_rules():
        for verb in rule["verbs"]:
            for resource in rule["resources"]:
                right = (rule["apiGroups"][0], resource, verb)
                assert verb in READS or right in REVIEWS, rule


async def get(cluster: Deployed, path: str, token: str) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(ssl=False)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"{cluster.url}{path}", headers=headers) as response,
    ):
        return response.status, await response.read()


async def compared(cluster: Deployed, count: int) -> ShadowReport:
    while True:
        status, body = await get(cluster, "/shadow", ROOT)
        assert status == 200, body
        report = msgspec.json.decode(body, type=ShadowReport)
        if report.compared >= count:
            return report
        await asyncio.sleep(0.1)


def test_a_shadow_compares_and_writes_nothing(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"

    async def main() -> None:
        flags = ("--shadow", "--shadow-window=200ms", f"--shadow-ledger={ledger}", "--dashboard")
        async with deployed(tmp_path, *flags, everywhere=shadow_rules()) as cluster:
            for number in range(3):
                await cluster.create(make_node(f"n{number}", cpu="4", memory="8Gi"))
            await cluster.api.create(
                msgspec.convert({"metadata": {"name": "high"}, "value": 1000}, PriorityClass)
            )
            other = Scheduler(cluster.api, profiles=[{"schedulerName": "kubesched"}])
            async with running(other):
                for number in range(8):
                    await cluster.create(pod(f"p{number}", "1"))
                await cluster.create(pod("huge", "64"))
                report = await compared(cluster, 9)
            # Only the other scheduler records events.
            recorded = {event.reporting_controller for event in await events(cluster)}
            status, page = await get(cluster, "/dashboard/api/shadow", ROOT)
            assert status == 200
            assert msgspec.json.decode(page)["compared"] == report.compared
            for token, expected in ((MONITOR, 403), (STRANGER, 403), ("wrong", 401)):
                assert (await get(cluster, "/shadow", token))[0] == expected
            _, metrics = await get(cluster, "/metrics", MONITOR)
            assert ledger.exists(), "a report can be read from the beginning"
            users = cluster.users
        assert report.agreed == 1, report.differences
        assert report.verdicts[ShadowVerdict.NEITHER] >= 1
        assert recorded == {"kubesched"}
        assert b"kubesched_shadow_decisions_total" in metrics
        assert users.refused == [each for each in users.refused if not each.plural]
        assert {right for right in users.used if right[2] not in READS} <= REVIEWS

    asyncio.run(main())
    stored = msgspec.json.decode(ledger.read_bytes(), type=ShadowReport)
    assert stored.compared >= 9


async def events(cluster: Deployed) -> list[Event]:
    return list((await cluster.api.list(Event)).items)


def pod(name: str, cpu: str) -> Pod:
    return make_pod(name, requests={"cpu": cpu}, images=["i"], scheduler_name="kubesched")


def test_the_chart_runs_a_shadow_of_the_default_scheduler() -> None:
    objects = render({"mode": "shadow"})
    container = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert "--shadow" in container["args"]
    text = one(objects, "ConfigMap", "kubesched-config")["data"]["config.yaml"]
    assert yaml.safe_load(text)["profiles"] == [{"schedulerName": "default-scheduler"}]
    assert not [each for each in objects if "leader-election" in each["metadata"]["name"]]
    assert one(objects, "Deployment")["spec"]["replicas"] == 1
