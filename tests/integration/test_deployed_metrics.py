"""`/metrics` of the running process, compared with the reference after the same kind of run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import NamedTuple

import aiohttp

from kubesched.testing import make_node
from tests.integration.deployed_cluster import MONITOR, STRANGER, Deployed, deployed
from tests.integration.test_deployed import bound, pod, told

# What the reference shows and we do not (docs/differences.md): Go's runtime and workqueues, what
# its libraries for API servers bring along, and batching.
ABSENT = (
    "go_",
    "workqueue_",
    "aggregator_",
    "apiserver_audit_",
    "apiserver_envelope_",
    "apiserver_storage_",
    "apiserver_validation_",
    "apiserver_webhooks_",
    "cardinality_",
    "scheduler_batch_cache_flushed_total",
    "scheduler_store_schedule_results_duration_seconds",
)
# One attempt in ten is timed plugin by plugin; a short run may have none.
BY_CHANCE = {"scheduler_plugin_execution_duration_seconds"}
ADDED = {
    "kubesched_build_info",
    "kubesched_config_info",
    "kubesched_config_last_reload_success_timestamp_seconds",
    "kubesched_config_last_reload_successful",
    "kubesched_config_reloads_total",
    "kubesched_events_dropped_total",
    "kubesched_leader_election_failing",
}


class Family(NamedTuple):
    kind: str
    level: str
    labels: frozenset[tuple[str, ...]]
    buckets: tuple[str, ...]


def families(text: str) -> dict[str, Family]:
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    levels = dict(re.findall(r"^# HELP (\S+) (\[\w+\])", text, re.M))
    labels: dict[str, set[tuple[str, ...]]] = {name: set() for name in kinds}
    buckets: dict[str, dict[str, None]] = {name: {} for name in kinds}
    for name, inner in re.findall(r"^([a-z]\w*)(?:\{(.*)\})? \S+$", text, re.M):
        base = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', inner)
        labels[base].add(tuple(sorted(label for label, _ in pairs if label != "le")))
        buckets[base].update((value, None) for label, value in pairs if label == "le")
    return {
        name: Family(kind, levels.get(name, ""), frozenset(labels[name]), tuple(buckets[name]))
        for name, kind in kinds.items()
    }


async def work(cluster: Deployed) -> str:
    for number in range(5):
        await cluster.create(make_node(f"n{number}", cpu="4", memory="8Gi"))
    await cluster.create(pod("fits", "100m"))
    await bound(cluster, "fits")
    await cluster.create(pod("huge", "64"))
    await told(cluster, "FailedScheduling")
    await asyncio.sleep(1.5)  # batched durations are added every second
    text = ""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        for token in (STRANGER, "wrong", MONITOR, MONITOR):
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(f"{cluster.url}/metrics", headers=headers) as response:
                text = await response.text()
    return text


def test_names_types_labels_and_buckets_are_the_references(goldens: Path, tmp_path: Path) -> None:
    async def main() -> str:
        async with deployed(tmp_path) as cluster:
            return await work(cluster)

    ours = families(asyncio.run(main()))
    recorded = families((goldens / "api" / "metrics.txt").read_text())
    expected = {name: each for name, each in recorded.items() if not name.startswith(ABSENT)}
    assert set(expected) - set(ours) - BY_CHANCE == set()
    assert set(ours) - set(expected) == ADDED
    for name in set(expected) & set(ours):
        got, want = ours[name], expected[name]
        assert (name, got.kind, got.buckets) == (name, want.kind, want.buckets)
        if want.labels and name != "process_network_receive_bytes_total":
            assert (name, got.labels) == (name, want.labels)
        assert (name, got.level) == (name, want.level)


MOVED = (
    r'scheduler_schedule_attempts_total\{profile="kubesched",result="scheduled"\} 1',
    r'scheduler_schedule_attempts_total\{profile="kubesched",result="unschedulable"\} [1-9]',
    r'scheduler_pending_pods\{queue="unschedulable"\} 1',
    r'scheduler_cache_size\{type="nodes"\} 5',
    r'leader_election_master_status\{name="kube-scheduler"\} 1',
    r'rest_client_requests_total\{code="200",host="\S+",method="PUT"\} [1-9]',
    r'rest_client_requests_total\{code="201",host="\S+",method="POST"\} [1-9]',
    r'rest_client_rate_limiter_duration_seconds_count\{host="\S+",verb="POST"\} [1-9]',
    r'rest_client_transport_create_calls_total\{result="miss"\} 5',
    r"rest_client_exec_plugin_ttl_seconds \+Inf",
    r'authentication_attempts\{result="error"\} 1',
    r'authorization_attempts_total\{result="no-opinion"\} [1-9]',
    r'apiserver_delegated_authn_request_total\{code="201"\} [1-9]',
    r'apiserver_delegated_authz_request_total\{code="201"\} [1-9]',
    r'authentication_token_cache_request_total\{status="hit"\} [1-9]',
    r"kubesched_events_dropped_total 0",
    r"kubesched_leader_election_failing 0",
    r'kubesched_config_info\{sha256="[0-9a-f]{64}"\} 1',
    r"kubesched_config_last_reload_successful 1",
)


def test_the_metrics_show_the_run(tmp_path: Path) -> None:
    async def main() -> str:
        async with deployed(tmp_path) as cluster:
            return await work(cluster)

    text = asyncio.run(main())
    for line in MOVED:
        assert re.search(f"^{line}", text, re.M), line
