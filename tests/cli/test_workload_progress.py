"""`WorkloadProgress`: when a workload counts as placed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kubesched.api import (
    LabelSelector,
    Pod,
    PodCondition,
    ReplicationController,
    ReplicationControllerSpec,
)
from kubesched.api.apps import (
    DaemonSet,
    DaemonSetStatus,
    Deployment,
    DeploymentSpec,
    StatefulSet,
    StatefulSetSpec,
)
from kubesched.api.batch import CronJob, CronJobSpec, Job, JobSpec, JobStatus
from kubesched.cli.workload_progress import (
    WorkloadProgress,
    next_run,
    pods_of,
    remarks,
    wanted_pods,
)
from kubesched.foundation.util.clock import SECOND
from kubesched.scheduler.backend.queue.view import Place, PodPlace
from kubesched.testing import make_meta, make_owner, make_pod


class Queue:
    def __init__(self, **places: Place) -> None:
        self._places = places

    def describe(self, pod_key_or_uid: str, now_ns: int) -> PodPlace | None:
        name = pod_key_or_uid.rpartition("/")[2]
        if name not in self._places:
            return None
        return PodPlace(
            pod=make_pod(name),
            place=self._places[name],
            since_ns=now_ns,
            attempts=1,
            first_attempted_ns=now_ns,
            gated_by="Holder" if self._places[name] is Place.GATED else "",
        )


def failed(pod: Pod, nominated: str = "") -> Pod:
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    status = replace(pod.status, conditions=(condition,), nominated_node_name=nominated)
    return replace(pod, status=status)


def why_open(pod: Pod, place: Place | None = None) -> dict[str, str]:
    queue = Queue() if place is None else Queue(**{pod.metadata.name: place})
    progress = WorkloadProgress(queue, {"default-scheduler"}, ())
    return progress.open([pod], (), 0)


CASES = {
    "one with a node is decided": (make_pod("p", node_name="n"), None, ""),
    "an untried pod is open": (make_pod("p"), None, "not tried yet"),
    "one that fits nowhere is decided": (failed(make_pod("p")), Place.UNSCHEDULABLE, ""),
    "one that waits for its next try is decided": (failed(make_pod("p")), Place.BACKOFF, ""),
    "one whose next try is due is open": (failed(make_pod("p")), Place.ACTIVE, "being placed"),
    "one that others make room for is open": (
        failed(make_pod("p"), "n"),
        Place.UNSCHEDULABLE,
        "waits for room on n",
    ),
    "one that a plugin holds back is decided": (make_pod("p"), Place.GATED, ""),
}


@pytest.mark.parametrize(("pod", "place", "want"), CASES.values(), ids=CASES)
def test_a_pod(pod: Pod, place: Place | None, want: str) -> None:
    assert why_open(pod, place) == ({"default/p": want} if want else {})


def test_pods_of_the_workload_are_awaited_until_they_were_reported() -> None:
    progress = WorkloadProgress(Queue(), {"default-scheduler"}, ["default/a", "default/b"])
    progress.note(make_pod("a", node_name="n"))
    assert progress.open([], (), 0) == {"default/b": "not created yet"}, "a came and went"
    assert progress.total([], ()) == 1
    assert progress.total([make_pod("a", node_name="n")], ()) == 2


def test_pods_that_controllers_will_create_are_expected() -> None:
    meta = make_meta("DaemonSet", "x", namespace="default")
    web = Deployment(metadata=meta, spec=DeploymentSpec(replicas=5))
    assert (wanted_pods(web, ()), pods_of(web, ())) == (5, 0)
    job = Job(metadata=meta, spec=JobSpec(parallelism=3, completions=2), status=JobStatus(active=1))
    assert (wanted_pods(job, ()), pods_of(job, ())) == (2, 1)
    assert wanted_pods(replace(job, spec=replace(job.spec, suspend=True)), ()) == 0
    new = DaemonSet(metadata=meta)
    assert wanted_pods(new, ()) == 1, "its controller has not looked at the nodes"
    observed = DaemonSetStatus(observed_generation=1, desired_number_scheduled=2)
    seen = replace(new, status=observed)
    own = make_pod("d", owner=make_owner("DaemonSet", "x"))
    assert (wanted_pods(seen, [own]), pods_of(seen, [own])) == (2, 1)
    progress = WorkloadProgress(Queue(), {"default-scheduler"}, ())
    assert progress.open([], [seen], 0) == {"DaemonSet default/x": "0 of 2 pods made"}
    assert progress.total([], [seen, web]) == 7


def test_pods_of_a_stateful_set_come_one_after_another() -> None:
    meta = make_meta("StatefulSet", "db", namespace="default")
    db = StatefulSet(metadata=meta, spec=StatefulSetSpec(replicas=3))
    owner = make_owner("StatefulSet", "db")
    placed, waiting = make_pod("db-0", owner=owner, node_name="n"), make_pod("db-1", owner=owner)
    assert wanted_pods(db, ()) == 3
    assert (wanted_pods(db, [placed]), pods_of(db, [placed])) == (3, 1)
    assert wanted_pods(db, [placed, waiting]) == 2, "the third waits for the second"
    parallel = replace(db, spec=replace(db.spec, pod_management_policy="Parallel"))
    assert wanted_pods(parallel, [placed, waiting]) == 3


def test_an_owner_whose_pods_are_refused_is_not_waited_for_and_named() -> None:
    meta = make_meta("ReplicationController", "old", namespace="default")
    old = ReplicationController(metadata=meta, spec=ReplicationControllerSpec(replicas=4))
    progress = WorkloadProgress(Queue(), {"default-scheduler"}, ())
    name = "ReplicationController default/old"
    assert progress.open([], [old], 0) == {name: "0 of 4 pods made"}
    assert (progress.open([], [old], 0, {meta.uid}), progress.total([], [old], {meta.uid})) == (
        {},
        0,
    )
    why = remarks([], [old], {meta.uid: "exceeded quota"}, 0)
    assert why == {name: "0 of 4 pods made: exceeded quota"}
    assert remarks([], [old], {}, 0) == {}


# The epoch was a Thursday.
RUNS = {
    "0 12 * * *": "next Job at 1970-01-01T12:00:00Z",
    "0 0 * * SAT": "next Job at 1970-01-03T00:00:00Z",
    "0 0 31 2 *": "never runs",
    "often": "schedule 'often': expected exactly 5 fields, found 1: [often]",
}


@pytest.mark.parametrize(("schedule", "want"), RUNS.items())
def test_when_a_cron_job_runs_next(schedule: str, want: str) -> None:
    meta = make_meta("CronJob", "nightly", namespace="default")
    nightly = CronJob(metadata=meta, spec=CronJobSpec(schedule=schedule))
    assert next_run(nightly, 60 * SECOND) == want
    assert remarks([], [nightly], {}, 0) == {"CronJob default/nightly": want}
    suspended = replace(nightly, spec=replace(nightly.spec, suspend=True))
    assert next_run(suspended, 0) == "suspended"


def test_pods_that_a_controller_has_not_counted_yet_are_not_missing() -> None:
    meta = make_meta("Deployment", "web", namespace="default")
    selector = LabelSelector(match_labels={"app": "web"})
    web = Deployment(metadata=meta, spec=DeploymentSpec(replicas=3, selector=selector))
    pods = [
        make_pod("a", labels={"app": "web", "x": "y"}),
        make_pod("b", labels={"app": "api"}),
        make_pod("c", namespace="other", labels={"app": "web"}),
    ]
    assert pods_of(web, pods) == 1
    progress = WorkloadProgress(Queue(), {"default-scheduler"}, ())
    assert progress.total(pods, [web]) == 5
