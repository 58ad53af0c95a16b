"""Specs of Jobs and CronJobs."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.cluster.specs.spec_runner import Json, RefusedError, Spec, SpecSteps, condition_of, play

COMMANDS = {
    "sleeps": ["sleep", "1000000"],
    "fails": ["/bin/sh", "-c", "exit 1"],
    "succeeds": ["/bin/sh", "-c", "exit 0"],
    "takes long to end": [
        "sh",
        "-c",
        "trap 'sleep 5; exit 143' TERM; while true; do sleep 1; done",
    ],
}


def job(name: str, does: str = "succeeds", **spec: Any) -> Json:
    """Two at a time, four in all, as most of the specs have it."""
    policy = spec.pop("restartPolicy", "Never")
    container = {
        "name": "c",
        "image": "registry.k8s.io/e2e-test-images/busybox:1.37",
        "command": COMMANDS[does],
        "volumeMounts": [{"mountPath": "/data", "name": "data"}],
        "securityContext": {},
    }
    template = {
        "metadata": {"labels": {"job": name}},
        "spec": {
            "restartPolicy": policy,
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [container],
        },
    }
    wanted = {"parallelism": 2, "completions": 4, "backoffLimit": 6, "manualSelector": False}
    wanted |= {key: value for key, value in spec.items() if value is not None}
    for key in [key for key, value in spec.items() if value is None]:
        del wanted[key]
    return {"metadata": {"name": name}, "spec": {**wanted, "template": template}}


def reason(spec: Spec, name: str, kind: str) -> str | None:
    for each in spec.get("jobs", name).get("status", {}).get("conditions", ()):
        if each["type"] == kind and each["status"] == "True":
            return str(each.get("reason", ""))
    return None


def phases(spec: Spec, name: str) -> list[str]:
    return sorted(pod["status"]["phase"] for pod in spec.pods(f"job={name}"))


def status(spec: Spec, name: str) -> Json:
    return spec.get("jobs", name)["status"]


async def _completes(spec: Spec) -> None:
    spec.create("jobs", job("all"))
    assert await spec.until(lambda: reason(spec, "all", "SuccessCriteriaMet"))
    await spec.until(lambda: status(spec, "all").get("succeeded") == 4)
    assert await spec.until(lambda: reason(spec, "all", "Complete")) == "CompletionsReached"
    assert phases(spec, "all") == ["Succeeded"] * 4


async def _begins_suspended(spec: Spec) -> None:
    spec.create("jobs", job("s", suspend=True))
    await spec.always(lambda: not spec.pods(), 30)
    assert reason(spec, "s", "Suspended") == "JobSuspended"
    spec.change("jobs", "s", lambda found: found["spec"].update(suspend=False))
    await spec.until(lambda: reason(spec, "s", "Complete"))
    assert status(spec, "s")["succeeded"] == 4


async def _is_suspended(spec: Spec) -> None:
    spec.create("jobs", job("s", "sleeps", suspend=False))
    await spec.until(lambda: phases(spec, "s") == ["Running"] * 2)
    spec.change("jobs", "s", lambda found: found["spec"].update(suspend=True))
    await spec.until(lambda: not spec.pods("job=s"))
    assert reason(spec, "s", "Suspended") == "JobSuspended"


def _resources(found: Json, cpu: str) -> None:
    container = found["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}


async def _suspended_is_resized(spec: Spec) -> None:
    spec.create("jobs", job("s", suspend=True))
    await spec.until(lambda: reason(spec, "s", "Suspended"))
    spec.change("jobs", "s", lambda found: _resources(found, "200m"))
    spec.change("jobs", "s", lambda found: found["spec"].update(suspend=False))
    await spec.until(lambda: reason(spec, "s", "Complete"))
    for pod in spec.pods("job=s"):
        assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "200m"}


async def _started_is_resized(spec: Spec) -> None:
    spec.create("jobs", job("s", "sleeps"))
    await spec.until(lambda: phases(spec, "s") == ["Running"] * 2)
    with pytest.raises(RefusedError, match="immutable"):
        spec.change("jobs", "s", lambda found: _resources(found, "200m"))
    spec.change("jobs", "s", lambda found: found["spec"].update(suspend=True))
    await spec.until(lambda: not spec.pods("job=s"))
    await spec.until(lambda: reason(spec, "s", "Suspended"))
    spec.change("jobs", "s", lambda found: _resources(found, "200m"))
    spec.change("jobs", "s", lambda found: found["spec"].update(suspend=False))
    await spec.until(lambda: phases(spec, "s") == ["Running"] * 2)
    for pod in spec.pods("job=s"):
        assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "200m"}


async def _indexes(spec: Spec) -> None:
    spec.create("jobs", job("i", completionMode="Indexed"))
    await spec.until(lambda: reason(spec, "i", "Complete"))
    pods = spec.pods("job=i")
    key = "batch.kubernetes.io/job-completion-index"
    numbers = sorted(int(pod["metadata"]["annotations"][key]) for pod in pods)
    assert numbers == [0, 1, 2, 3]
    for pod in pods:
        index = pod["metadata"]["annotations"][key]
        assert pod["metadata"]["labels"][key] == index
        assert pod["spec"]["hostname"] == f"i-{index}"
        assert pod["metadata"]["name"].startswith(f"i-{index}-")


async def _policy_of_success(spec: Spec) -> None:
    made = job("p", completionMode="Indexed")
    made["spec"]["successPolicy"] = {"rules": [{"succeededIndexes": "0-3"}]}
    spec.create("jobs", made)
    assert await spec.until(lambda: reason(spec, "p", "SuccessCriteriaMet")) == "SuccessPolicy"
    assert await spec.until(lambda: reason(spec, "p", "Complete")) == "SuccessPolicy"
    assert status(spec, "p")["completedIndexes"] == "0-3"
    assert status(spec, "p")["terminating"] == 0


async def _failures_per_index(spec: Spec) -> None:
    spec.create(
        "jobs",
        job(
            "f",
            "fails",
            parallelism=1,
            completions=1,
            completionMode="Indexed",
            backoffLimit=None,
            backoffLimitPerIndex=1,
        ),
    )
    await spec.until(lambda: len(spec.pods("job=f")) == 2, 90)
    key = "batch.kubernetes.io/job-index-failure-count"
    assert sorted(pod["metadata"]["annotations"][key] for pod in spec.pods("job=f")) == ["0", "1"]
    await spec.until(lambda: reason(spec, "f", "Failed") == "FailedIndexes")


async def _too_many_failed_indexes(spec: Spec) -> None:
    limits = {"backoffLimit": None, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0}
    spec.create("jobs", job("m", "fails", parallelism=1, completionMode="Indexed", **limits))
    wanted = "MaxFailedIndexesExceeded"
    assert await spec.until(lambda: reason(spec, "m", "FailureTarget")) == wanted
    assert await spec.until(lambda: reason(spec, "m", "Failed")) == wanted
    assert status(spec, "m")["failedIndexes"] == "0"
    assert status(spec, "m")["failed"] == 1


async def _replaces_ended_pods_only(spec: Spec) -> None:
    made = job("r", "takes long to end", parallelism=1, completions=1)
    made["spec"]["podReplacementPolicy"] = "Failed"
    spec.create("jobs", made)
    pod = (await spec.until(lambda: spec.running("job=r")))[0]
    spec.delete("pods", pod["metadata"]["name"])
    await spec.sleep(2)  # as often as the suite looks
    held = status(spec, "r")
    assert (held.get("active"), held.get("failed"), held["terminating"]) == (None, None, 1)
    assert len(spec.pods("job=r")) == 1
    await spec.until(lambda: status(spec, "r").get("failed") == 1)
    await spec.until(lambda: status(spec, "r").get("active") == 1)
    assert status(spec, "r")["terminating"] == 0


async def _misses_its_deadline(spec: Spec) -> None:
    spec.create("jobs", job("d", "sleeps", activeDeadlineSeconds=1))
    assert await spec.until(lambda: reason(spec, "d", "FailureTarget")) == "DeadlineExceeded"
    assert await spec.until(lambda: reason(spec, "d", "Failed")) == "DeadlineExceeded"


async def _fails_too_often(spec: Spec) -> None:
    spec.create("jobs", job("b", "fails", parallelism=1, completions=1, backoffLimit=1))
    assert await spec.until(lambda: reason(spec, "b", "FailureTarget")) == "BackoffLimitExceeded"
    assert await spec.until(lambda: reason(spec, "b", "Failed")) == "BackoffLimitExceeded"
    assert phases(spec, "b") == ["Failed", "Failed"]


async def _is_deleted(spec: Spec) -> None:
    spec.create("jobs", job("d", "sleeps"))
    await spec.until(lambda: phases(spec, "d") == ["Running"] * 2)
    spec.delete("jobs", "d", propagationPolicy="Background")
    await spec.until(lambda: not spec.pods("job=d"))
    assert not spec.exists("jobs", "d")


async def _adopts_and_releases(spec: Spec) -> None:
    made = spec.create("jobs", job("a", "sleeps"))
    await spec.until(lambda: phases(spec, "a") == ["Running"] * 2)
    name = spec.pods("job=a")[0]["metadata"]["name"]
    spec.change("pods", name, lambda found: found["metadata"].pop("ownerReferences"))
    owners = await spec.until(lambda: spec.get("pods", name)["metadata"].get("ownerReferences"))
    assert [(each["uid"], each["kind"]) for each in owners] == [(made["metadata"]["uid"], "Job")]
    spec.change("pods", name, lambda found: found["metadata"].pop("labels"))
    await spec.until(lambda: "ownerReferences" not in spec.get("pods", name)["metadata"])


async def _status_is_applied(spec: Spec) -> None:
    made = spec.create("jobs", job("st", "sleeps"))
    await spec.until(lambda: phases(spec, "st") == ["Running"] * 2)
    now = "2026-01-01T00:00:09Z"
    condition = {"type": "Custom", "status": "True", "lastTransitionTime": now}
    body = {
        "metadata": {"annotations": {"patchedstatus": "true"}},
        "status": {"conditions": [{**condition, "lastProbeTime": None}]},
    }
    patched = spec.patch("jobs", "st", body, "status", kind="merge")
    assert patched["metadata"]["annotations"]["patchedstatus"] == "true"
    assert [each["lastTransitionTime"] for each in patched["status"]["conditions"]] == [now]
    later = "2026-01-01T00:00:20Z"

    def change(found: Json) -> None:
        custom = [each for each in found["status"]["conditions"] if each["type"] == "Custom"]
        custom[0]["lastTransitionTime"] = later

    updated = spec.change("jobs", "st", change, "status")
    assert [each["lastTransitionTime"] for each in updated["status"]["conditions"]] == [later]
    assert spec.get("jobs", "st", "status")["metadata"]["uid"] == made["metadata"]["uid"]
    await spec.sleep(3)
    assert condition_of(spec.get("jobs", "st"), "Custom") == "True"


async def _is_managed(spec: Spec) -> None:
    labels = {"e2e-job-label": "one"}
    watch = spec.watch("jobs", labels="e2e-job-label=one")
    made = job("one", suspend=True)
    made["metadata"]["labels"] = labels
    spec.create("jobs", made)
    spec.patch("jobs", "one", {"metadata": {"labels": {"one": "patched"}}})

    def resume(found: Json) -> None:
        found["spec"]["suspend"] = False
        found["metadata"].setdefault("annotations", {})["updated"] = "true"

    spec.change("jobs", "one", resume)
    assert len(spec.list("jobs", "e2e-job-label=one", everywhere=True)) == 1
    await spec.until(lambda: reason(spec, "one", "Complete"))
    spec.delete_all("jobs", "e2e-job-label=one", propagationPolicy="Background")
    await spec.until(lambda: watch.read()[-1]["type"] == "DELETED")
    assert not spec.list("jobs", "e2e-job-label=one", everywhere=True)


async def _counts_ready_pods(spec: Spec) -> None:
    spec.create("jobs", job("y", "sleeps"))
    await spec.until(lambda: status(spec, "y").get("ready") == 2)


async def _is_managed_by_another_controller(spec: Spec) -> None:
    made = job("x", "sleeps")
    made["spec"]["managedBy"] = "example.com/custom-job-controller"
    spec.create("jobs", made)
    begun = "2026-01-01T00:00:05Z"
    body = {"status": {"active": 2, "ready": 1, "startTime": begun, "terminating": 0}}
    spec.patch("jobs", "x", body, "status", kind="merge")
    await spec.sleep(5)
    assert not spec.pods("job=x")
    assert status(spec, "x") == {**body["status"]}


async def _ends_and_goes(spec: Spec) -> None:
    spec.create("jobs", job("t", ttlSecondsAfterFinished=5))
    await spec.until(lambda: reason(spec, "t", "Complete"))
    # The spec keeps the pod with a finalizer, to observe when it was marked.
    spec.patch("jobs", "t", {"metadata": {"finalizers": ["example.com/dummy"]}}, kind="merge")
    await spec.until(lambda: "deletionTimestamp" in spec.get("jobs", "t")["metadata"])
    ended = spec.get("jobs", "t")
    times = [each["lastTransitionTime"] for each in ended["status"]["conditions"]]
    assert ended["metadata"]["deletionTimestamp"] >= max(times)
    spec.patch("jobs", "t", {"metadata": {"finalizers": None}}, kind="merge")
    await spec.until(lambda: not spec.exists("jobs", "t"))


JOBS: dict[str, SpecSteps] = {
    "a job runs to completion": _completes,
    "a job created suspended makes no pods until it is resumed": _begins_suspended,
    "a job that is suspended deletes its pods": _is_suspended,
    "a suspended job may be given other resources": _suspended_is_resized,
    "a job that ran and was suspended may be given other resources": _started_is_resized,
    "pods of an indexed job have indexes and hostnames": _indexes,
    "a job ends well by its success policy": _policy_of_success,
    "failures of an index are noted on its pods": _failures_per_index,
    "a job ends when too many indexes have failed": _too_many_failed_indexes,
    "pods are replaced only when they have ended": _replaces_ended_pods_only,
    "a job that misses its deadline fails": _misses_its_deadline,
    "a job fails beyond its backoff limit": _fails_too_often,
    "a deleted job takes its pods along": _is_deleted,
    "a job adopts what matches and releases what does not": _adopts_and_releases,
    "a job's status can be patched and replaced": _status_is_applied,
    "a job is created, patched, updated, listed and deleted": _is_managed,
    "a job counts its ready pods": _counts_ready_pods,
    "a job of another controller is left alone": _is_managed_by_another_controller,
    "an ended job is deleted after its time to live": _ends_and_goes,
}


def cron_job(name: str, command: list[str] | None, **spec: Any) -> Json:
    container: Json = {"name": "c", "image": "registry.k8s.io/e2e-test-images/busybox:1.37"}
    if command is not None:
        container["command"] = command
    pod = {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}
    made = {"parallelism": 1, "completions": 1, "backoffLimit": 1, "template": pod}
    wanted = {"schedule": "*/1 * * * ?", "jobTemplate": {"spec": made}, **spec}
    return {"metadata": {"name": name}, "spec": wanted}


def active(spec: Spec, name: str = "c") -> list[str]:
    return [each["name"] for each in spec.get("cronjobs", name)["status"].get("active", ())]


def ended(spec: Spec) -> list[str]:
    return [
        each["metadata"]["name"]
        for each in spec.list("jobs")
        if condition_of(each, "Complete") == "True" or condition_of(each, "Failed") == "True"
    ]


SLEEPS = ["sleep", "300"]


async def _several_at_once(spec: Spec) -> None:
    spec.create("cronjobs", cron_job("c", SLEEPS, concurrencyPolicy="Allow"))
    await spec.until(lambda: len(active(spec)) >= 2, 300)
    assert len(spec.list("jobs")) - len(ended(spec)) >= 2


async def _one_at_a_time(spec: Spec) -> None:
    spec.create("cronjobs", cron_job("c", SLEEPS, concurrencyPolicy="Forbid"))
    await spec.until(lambda: len(active(spec)) == 1, 300)
    await spec.always(lambda: len(active(spec)) < 2, 150)


async def _is_replaced(spec: Spec) -> None:
    spec.create("cronjobs", cron_job("c", SLEEPS, concurrencyPolicy="Replace"))
    first = (await spec.until(lambda: active(spec), 300))[0]
    assert len(spec.list("jobs")) == 1
    await spec.until(
        lambda: [job["metadata"]["name"] for job in spec.list("jobs")] not in ([], [first]), 300
    )


async def _never_runs(spec: Spec) -> None:
    spec.create("cronjobs", cron_job("c", SLEEPS, suspend=True))
    await spec.always(lambda: not active(spec) and not spec.list("jobs"), 150)


async def _no_warnings(spec: Spec) -> None:
    spec.create("cronjobs", cron_job("c", None))
    await spec.until(lambda: len(spec.list("jobs")) >= 2 and ended(spec), 300)
    assert not {"MissingJob", "UnexpectedJob"} & set(spec.events("c"))
    key = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    assert spec.list("jobs")[0]["metadata"]["annotations"][key].startswith("2026-01-01T00:0")


async def _forgets_deleted_jobs(spec: Spec) -> None:
    spec.create("cronjobs", cron_job("c", SLEEPS, concurrencyPolicy="Forbid"))
    name = (await spec.until(lambda: active(spec), 300))[0]
    spec.delete("jobs", name, propagationPolicy="Background")
    await spec.until(lambda: not spec.exists("jobs", name))
    await spec.until(lambda: name not in active(spec), 300)
    await spec.until(lambda: "MissingJob" in spec.events("c"), 300)


def _keeps(command: str, **limits: int) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        spec.create("cronjobs", cron_job("c", [command], **limits))
        await spec.until(lambda: ended(spec), 300)
        (first,) = ended(spec)
        await spec.until(lambda: not spec.exists("jobs", first), 300)
        owned = f"batch.kubernetes.io/job-name={first}"
        await spec.until(lambda: not spec.pods(owned), 300)
        assert len(ended(spec)) == 1

    return steps


async def _api_of_cron_jobs(spec: Spec) -> None:
    made = cron_job("c", ["/bin/true"], schedule="* */1 * * ?")
    made["metadata"]["labels"] = {"special-label": "x"}
    created = spec.create("cronjobs", made)
    watch = spec.watch("cronjobs", created["metadata"]["resourceVersion"], "special-label=x")
    note = {"metadata": {"annotations": {"patched": "true"}}}
    assert spec.patch("cronjobs", "c", note, kind="merge")["metadata"]["annotations"] == {
        "patched": "true"
    }
    spec.change("cronjobs", "c", lambda c: c["metadata"]["annotations"].update(updated="true"))
    assert {each["type"] for each in watch.read()} == {"MODIFIED"}
    now = "2026-01-01T00:00:09Z"
    body = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": {}}
    body["status"] = {"lastScheduleTime": now}
    patched = spec.patch("cronjobs", "c", body, "status", kind="merge")
    assert patched["status"]["lastScheduleTime"] == now
    assert patched["metadata"]["annotations"]["patchedstatus"] == "true"
    later = "2026-01-01T00:00:19Z"
    updated = spec.change(
        "cronjobs", "c", lambda c: c["status"].update(lastScheduleTime=later), "status"
    )
    assert updated["status"]["lastScheduleTime"] == later
    assert spec.get("cronjobs", "c", "status")["metadata"]["uid"] == created["metadata"]["uid"]
    made["metadata"]["name"] = "for-removal"
    spec.create("cronjobs", made)
    spec.delete("cronjobs", "for-removal")
    assert not spec.exists("cronjobs", "for-removal")
    spec.delete_all("cronjobs", "special-label=x")
    assert not spec.list("cronjobs", "special-label=x")
    bad = cron_job("z", None, timeZone="bad-time-zone")
    assert "timeZone" in spec.refused("cronjobs", bad)


CRON_JOBS: dict[str, SpecSteps] = {
    "several jobs run at once": _several_at_once,
    "forbidden to overlap, the first job stays alone": _one_at_a_time,
    "a running job is replaced": _is_replaced,
    "a suspended cron job makes none": _never_runs,
    "jobs that come and end give no warnings": _no_warnings,
    "a deleted job leaves the active list and an event": _forgets_deleted_jobs,
    "successful jobs beyond the limit go": _keeps(
        "/bin/true", successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0
    ),
    "failed jobs beyond the limit go": _keeps(
        "/bin/false", successfulJobsHistoryLimit=0, failedJobsHistoryLimit=1
    ),
    "every verb works": _api_of_cron_jobs,
}


@cache
def jobs() -> dict[str, BaseException | None]:
    return play(JOBS)


@cache
def cron_jobs() -> dict[str, BaseException | None]:
    return play(CRON_JOBS)


@pytest.mark.parametrize("scenario", JOBS)
def test_jobs(scenario: str) -> None:
    if (error := jobs()[scenario]) is not None:
        raise error


@pytest.mark.parametrize("scenario", CRON_JOBS)
def test_cron_jobs(scenario: str) -> None:
    if (error := cron_jobs()[scenario]) is not None:
        raise error
