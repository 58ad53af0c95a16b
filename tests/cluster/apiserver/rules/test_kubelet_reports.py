"""A kubelet's report has the same result and the same errors as a patch of the status."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api import ApiError, Pod
from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.rules.kubelet_reports import merge_report
from kubesched.cluster.apiserver.rules.patching.merge_rules import kind_merge_rules
from kubesched.cluster.apiserver.rules.patching.patches import strategic_merge_patch

Json = dict[str, Any]

NOW_NS = 1_767_225_600 * 1_000_000_000
KINDS = ("PodScheduled", "Initialized", "Ready", "ContainersReady", "example.com/gate")


def conditions(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Json]]:
    """Generate conditions of different types in any order, some with a reason."""
    condition = st.fixed_dictionaries(
        {"type": st.sampled_from(KINDS), "status": st.sampled_from(["True", "False"])},
        optional={"reason": values, "observedGeneration": st.integers(1, 2)},
    )
    return st.lists(condition, max_size=5, unique_by=lambda each: each["type"])


TEXTS = st.sampled_from(["a", "b"])
ADDRESSES = {"hostIPs": st.just([{"ip": "10.0.0.1"}]), "podIPs": st.just([{"ip": "10.0.0.2"}])}
STATUSES = st.fixed_dictionaries(
    {"phase": st.just("Pending")},
    optional={"conditions": conditions(TEXTS), "mine": TEXTS, **ADDRESSES},
)
REPORTS = st.fixed_dictionaries(
    {"phase": st.sampled_from(["Pending", "Running"]), "conditions": conditions(TEXTS | st.none())},
    optional={
        "containerStatuses": st.just([{"name": "main", "ready": True}]),
        "observedGeneration": st.integers(1, 2),
        "startTime": TEXTS,
    },
)


@given(STATUSES, REPORTS, st.booleans())
def test_a_report_is_merged_as_a_patch_is(status: Json, report: Json, has_address: bool) -> None:
    if has_address:
        report = {**report, "hostIPs": [{"ip": "10.0.0.3"}], "podIPs": [{"ip": "10.0.0.4"}]}
    merged = merge_report(status, report)
    expected = strategic_merge_patch(
        {"status": status}, {"status": report}, kind_merge_rules("", "v1", "Pod")
    )["status"]
    assert merged == expected
    assert [*map(list, merged["conditions"])] == [*map(list, expected["conditions"])]


def store_with_pod(**spec: Any) -> tuple[Store, Any, str]:
    store = Store(random.Random(0), now_ns=NOW_NS)
    pods = store.catalog.by_type(Pod)
    containers = [{"name": "main", "image": "image"}]
    body = {"metadata": {"name": "a"}, "spec": {"containers": containers, **spec}}
    uid = store.create(pods, "default", body, NOW_NS).data["metadata"]["uid"]
    store.bind("default", "a", uid, "node", NOW_NS)
    return store, pods, uid


def ended(exit_code: int) -> Json:
    terminated = {"exitCode": exit_code, "reason": "Completed"}
    state = {"name": "main", "image": "image", "imageID": "", "state": {"terminated": terminated}}
    return {**state, "ready": False, "restartCount": 0, "lastState": {}}


RUNNING: Json = {
    **ended(0),
    "ready": True,
    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_store_takes_and_refuses_reports_as_it_does_patches(policy: str, exit_code: int) -> None:
    reports: list[Json] = [
        {"phase": "Running", "conditions": [READY], "containerStatuses": [RUNNING]},
        {"phase": "Running", "conditions": [READY], "containerStatuses": [RUNNING]},
        {"phase": "Running", "conditions": [], "containerStatuses": [ended(exit_code)]},
        {"phase": "Running", "conditions": [READY], "containerStatuses": [RUNNING]},
        {"phase": "Failed", "conditions": [{**READY, "status": "False", "reason": "PodFailed"}]},
    ]
    outcomes = []
    for reports_it in (True, False):
        store, pods, uid = store_with_pod(restartPolicy=policy)
        outcome: list[Any] = []
        for report in reports:
            try:
                if reports_it:
                    record = store.report("default", "a", uid, report, NOW_NS)
                else:
                    patch = {"metadata": {"uid": uid}, "status": report}
                    record = store.patch(
                        pods, "default", "a", patch, NOW_NS, subresource="status", trusted=True
                    )
                outcome.append((record.data, record.typed))
            except ApiError as error:
                outcome.append((error.code, str(error)))
        store.check_invariants()
        outcomes.append(outcome)
    assert outcomes[0] == outcomes[1]
    versions = [each[0]["metadata"]["resourceVersion"] for each in outcomes[0][:2]]
    assert versions[0] == versions[1], "nothing new is no new version"
    # A terminated container that cannot restart stays terminated.
    stays = policy == "Never" or (policy == "OnFailure" and exit_code == 0)
    assert (outcomes[0][3][0] == 422) == stays


def test_a_report_on_another_pod_of_that_name_is_refused() -> None:
    store, _, uid = store_with_pod()
    with pytest.raises(ApiError) as refused:
        store.report("default", "a", "another", {"phase": "Running", "conditions": []}, NOW_NS)
    assert refused.value.code == 409
    with pytest.raises(ApiError) as missing:
        store.report("default", "b", uid, {"phase": "Running", "conditions": []}, NOW_NS)
    assert missing.value.code == 404


def test_a_report_on_a_pod_that_is_being_deleted_is_a_patch_like_any_other() -> None:
    store, pods, uid = store_with_pod(terminationGracePeriodSeconds=5)
    store.delete(pods, "default", "a", NOW_NS)
    report = {"phase": "Failed", "conditions": [], "containerStatuses": [ended(143)]}
    record = store.report("default", "a", uid, report, NOW_NS)
    assert record.data["status"]["phase"] == "Failed"
    assert "deletionTimestamp" in record.data["metadata"]
