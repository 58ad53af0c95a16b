"""Jobs: counted and ignored failures, indexes, completion; CronJobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubesched.api import ApiError, Job, Pod
from kubesched.api.batch import CronJob
from kubesched.cluster.controllers.job_indexes import indexes_from, indexes_text
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.cron_schedule import parse_schedule
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workloads

Json = dict[str, Any]


def run_on_cluster(test: Callable[[Workloads], Awaitable[None]]) -> None:
    async def main() -> None:
        async with workloads() as harness:
            await test(harness)

    run(main)


def job(script: str = "", *, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    container: Json = {"name": "c", "image": "busybox"}
    if script:
        container["command"] = ["/bin/sh", "-c", script]
    pod = {"restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}


async def conditions(harness: Workloads) -> dict[str, str]:
    status = (await harness.get(Job, "j")).status
    return {each.type: each.reason for each in status.conditions if each.status == "True"}


def test_literal_commands_decide_how_a_job_ends() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job("exit 3", backoffLimit=0))
        await harness.settle(5)
        assert await conditions(harness) == {
            "FailureTarget": "BackoffLimitExceeded",
            "Failed": "BackoffLimitExceeded",
        }
        (pod,) = await harness.pods()
        assert pod.status.phase == "Failed"
        ended = pod.status.container_statuses[0].state.terminated
        assert ended is not None
        assert ended.exit_code == 3
        assert pod.metadata.finalizers == ()

    run_on_cluster(test)


def test_failures_are_retried_after_longer_and_longer_pauses() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job("exit 1", backoffLimit=2))
        counts = []
        for _ in range(45):
            await harness.settle(1)
            counts.append(len(await harness.pods()))
        changes = [n for n in range(1, 45) if counts[n] != counts[n - 1]]
        assert counts[0] == 1
        assert counts[-1] == 3
        assert 9 <= changes[0] <= 12
        assert 28 <= changes[1] <= 34  # 10 s, then 20 s
        assert "Failed" in await conditions(harness)

    run_on_cluster(test)


def test_rules_define_which_failures_end_a_job_and_which_do_not_count() -> None:
    async def test(harness: Workloads) -> None:
        rules = [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        ]
        policy = {"rules": rules}
        await harness.create(Job, job("sleep 5; exit 42", podFailurePolicy=policy))
        await harness.settle(2)
        (pod,) = await harness.pods()
        target = {"type": "DisruptionTarget", "status": "True"}
        patch = {"status": {"conditions": [target], "phase": "Failed"}}
        await harness.api.patch(Pod, pod.metadata.name, "default", patch, subresource="status")
        await harness.settle(1)
        assert (await harness.get(Job, "j")).status.failed == 0
        await harness.settle(20)
        status = (await harness.get(Job, "j")).status
        assert status.failed == 1
        ended = next(each for each in status.conditions if each.type == "Failed")
        assert ended.reason == "PodFailurePolicy"
        name = next(
            each.metadata.name
            for each in await harness.pods()
            if each.metadata.name != pod.metadata.name
        )
        assert ended.message == (
            f"Container c for pod default/{name} failed with exit code 42 matching FailJob rule at "
            "index 0"
        )

    run_on_cluster(test)


def test_an_indexed_job_completes_by_its_success_policy() -> None:
    async def test(harness: Workloads) -> None:
        policy = {"rules": [{"succeededIndexes": "0,2", "succeededCount": 1}]}
        spec = {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}
        await harness.create(Job, job("sleep 1000", successPolicy=policy, **spec))
        await harness.settle(2)
        names = sorted(pod.metadata.name for pod in await harness.pods())
        assert [name.rsplit("-", 1)[0] for name in names] == ["j-0", "j-1", "j-2", "j-3"]
        document = harness.document(Pod, names[2])
        assert document["spec"]["hostname"] == "j-2"
        env = document["spec"]["containers"][0]["env"]
        assert env[0]["name"] == "JOB_COMPLETION_INDEX"
        patch = {"status": {"phase": "Succeeded"}}
        await harness.api.patch(Pod, names[2], "default", patch, subresource="status")
        await harness.settle(5)
        status = (await harness.get(Job, "j")).status
        assert status.completed_indexes == "2"
        assert await conditions(harness) == {
            "SuccessCriteriaMet": "SuccessPolicy",
            "Complete": "SuccessPolicy",
        }
        assert await harness.pods(lambda pod: pod.status.phase == "Running") == []

    run_on_cluster(test)


def test_failed_indexes_do_not_stop_a_job_up_to_a_limit() -> None:
    async def test(harness: Workloads) -> None:
        spec = {
            "completions": 3,
            "parallelism": 3,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 1,
        }
        await harness.create(Job, job("exit 1", maxFailedIndexes=1, **spec))
        await harness.settle(60)
        status = (await harness.get(Job, "j")).status
        assert (await conditions(harness))["Failed"] == "MaxFailedIndexesExceeded"
        assert len(indexes_from(status.failed_indexes or "")) >= 2
        counts = {
            pod.metadata.annotations["batch.kubernetes.io/job-index-failure-count"]
            for pod in await harness.pods()
        }
        assert counts == {"0", "1"}

    run_on_cluster(test)


def test_a_deadline_ends_a_job_and_its_pods() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job("sleep 1000", activeDeadlineSeconds=5, parallelism=2))
        await harness.settle(12)
        assert await conditions(harness) == {
            "FailureTarget": "DeadlineExceeded",
            "Failed": "DeadlineExceeded",
        }
        assert await harness.pods(lambda pod: pod.status.phase == "Running") == []

    run_on_cluster(test)


def test_a_suspended_job_has_no_pods_and_restarts_when_resumed() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job("sleep 100", suspend=True))
        await harness.settle(5)
        assert await harness.pods() == []
        assert await conditions(harness) == {"Suspended": "JobSuspended"}
        await harness.patch(Job, "j", {"spec": {"suspend": False}})
        await harness.settle(5)
        assert len(await harness.pods()) == 1
        assert (await harness.get(Job, "j")).status.start_time is not None
        await harness.patch(Job, "j", {"spec": {"suspend": True}})
        await harness.settle(5)
        assert await harness.pods() == []
        assert (await harness.get(Job, "j")).status.start_time is None

    run_on_cluster(test)


def test_a_job_of_another_owner_is_not_changed_and_an_old_one_is_deleted() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job("exit 0", managedBy="example.com/mine"))
        await harness.settle(5)
        assert await harness.pods() == []
        document = job("exit 0", ttlSecondsAfterFinished=5)
        document["metadata"]["name"] = "old"
        await harness.create(Job, document)
        await harness.settle(4)
        assert (await harness.get(Job, "old")).status.succeeded == 1
        await harness.settle(6)
        with pytest.raises(ApiError):
            await harness.get(Job, "old")
        assert await harness.pods() == []

    run_on_cluster(test)


def test_pods_are_replaced_after_their_end_by_policy() -> None:
    async def test(harness: Workloads) -> None:
        annotations = {"kubesched.io/stop-delay": "10s"}
        document = job("sleep 1000", annotations=annotations, podReplacementPolicy="Failed")
        await harness.create(Job, document)
        await harness.settle(2)
        (pod,) = await harness.pods()
        await harness.api.delete(Pod, pod.metadata.name, "default")
        await harness.settle(8)
        assert len(await harness.pods()) == 1
        assert (await harness.get(Job, "j")).status.terminating == 1
        await harness.settle(20)
        (other,) = await harness.pods()
        assert other.metadata.uid != pod.metadata.uid
        assert (await harness.get(Job, "j")).status.failed == 1

    run_on_cluster(test)


def test_completed_job_pods_are_counted_once_despite_lost_responses() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job("sleep 1", completions=30, parallelism=10))
        await harness.settle(60)
        status = (await harness.get(Job, "j")).status
        assert (status.succeeded, status.failed) == (30, 0)
        assert len(await harness.pods()) == 30

    run_on_cluster(test)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [((), ""), ((1,), "1"), ((1, 2), "1,2"), ((0, 1, 2, 5), "0-2,5"), ((3, 5, 6, 7, 9), "3,5-7,9")],
)
def test_indexes_are_written_as_ranges(indexes: tuple[int, ...], text: str) -> None:
    assert indexes_text(indexes) == text
    assert indexes_from(text) == set(indexes)


def test_a_cron_job_creates_jobs_and_retains_a_limited_history() -> None:
    async def test(harness: Workloads) -> None:
        template = {"spec": job("sleep 2")["spec"]}
        spec = {
            "schedule": "*/1 * * * *",
            "jobTemplate": template,
            "successfulJobsHistoryLimit": 2,
        }
        await harness.create(CronJob, {"metadata": {"name": "tick"}, "spec": spec})
        await harness.settle(5 * 60 + 30)
        jobs = await harness.all(Job)
        assert len(jobs) == 2
        stamp = jobs[-1].metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        cron = await harness.get(CronJob, "tick")
        assert (stamp, cron.status.last_schedule_time) == ("2026-01-01T00:05:00Z",) * 2
        assert cron.status.last_successful_time == "2026-01-01T00:05:02Z"
        assert jobs[-1].metadata.name.startswith("tick-")
        await harness.patch(CronJob, "tick", {"spec": {"suspend": True}})
        before = {each.metadata.name for each in await harness.all(Job)}
        await harness.settle(180)
        assert {each.metadata.name for each in await harness.all(Job)} == before

    run_on_cluster(test)


@pytest.mark.parametrize(("policy", "most"), [("Allow", 4), ("Forbid", 1), ("Replace", 1)])
def test_jobs_that_overlap_follow_the_concurrency_policy(policy: str, most: int) -> None:
    async def test(harness: Workloads) -> None:
        spec = {
            "schedule": "* * * * *",
            "concurrencyPolicy": policy,
            "jobTemplate": {"spec": job("sleep 1000")["spec"]},
        }
        await harness.create(CronJob, {"metadata": {"name": "tick"}, "spec": spec})
        await harness.settle(4 * 60 + 20)
        jobs = await harness.all(Job)
        assert len(jobs) == most
        active = (await harness.get(CronJob, "tick")).status.active
        assert {each.name for each in active} == {each.metadata.name for each in jobs}
        newest = max(each.metadata.creation_timestamp or "" for each in jobs)
        assert newest[:16] == ("2026-01-01T00:01" if policy == "Forbid" else "2026-01-01T00:04")

    run_on_cluster(test)


@pytest.mark.parametrize(
    ("schedule", "after", "wanted"),
    [
        ("*/15 * * * *", "2026-01-01T00:07:30Z", "2026-01-01T00:15:00Z"),
        ("0 9-17 * * mon-fri", "2026-01-03T10:00:00Z", "2026-01-05T09:00:00Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("5 4 1 jan,jul *", "2026-01-01T04:05:00Z", "2026-07-01T04:05:00Z"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("@every 90s", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"),
        ("TZ=Asia/Tokyo 0 9 * * *", "2026-01-01T00:30:00Z", "2026-01-02T00:00:00Z"),
    ],
)
def test_schedules_are_read_as_cron_does(schedule: str, after: str, wanted: str) -> None:
    from kubesched.api.time import format_time, parse_time

    found = parse_schedule(schedule).after(parse_time(after))
    assert found is not None
    assert format_time(found) == wanted
    assert found % SECOND == 0


@pytest.mark.parametrize("schedule", ["", "* * * *", "61 * * * *", "* * * * funday", "@sometimes"])
def test_an_invalid_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError):
        parse_schedule(schedule)


def test_large_index_ranges_are_not_expanded() -> None:
    assert len(indexes_from("0-2147483647,5-2147483647")) == 1_000_000
    assert indexes_from("3-1,x,7-,-8,²," + "9" * 5000) == set()
