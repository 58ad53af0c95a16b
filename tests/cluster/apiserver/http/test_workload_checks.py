"""Defaults and checks of the specs of workloads."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kubesched.cluster.apiserver.http.protobuf import PROTOBUF
from tests.cluster.apiserver.http.client import Client
from tests.cluster.apiserver.http.go_form import as_in_go

Json = dict[str, Any]

PATHS = {
    "CronJob": "/apis/batch/v1/namespaces/default/cronjobs",
    "DaemonSet": "/apis/apps/v1/namespaces/default/daemonsets",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
}
CONTAINERS = [{"name": "c", "image": "x"}]


def document(kind: str, spec: Json, name: str = "a") -> Json:
    labels = {"app": "a"}
    pod: Json = {"containers": CONTAINERS}
    if kind in ("CronJob", "Job"):
        pod["restartPolicy"] = "Never"
    job = {"template": {"spec": pod}}
    whole: Json
    if kind == "CronJob":
        whole = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    elif kind == "Job":
        whole = job
    else:
        template = {"metadata": {"labels": labels}, "spec": pod}
        whole = {"selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": {**whole, **spec}}


class Refused(NamedTuple):
    kind: str
    spec: Json
    message: str
    name: str = "a"


REFUSED = {
    "a deadline that ends before a pod can be available": Refused(
        "Deployment",
        {"minReadySeconds": 600},
        "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
    ),
    "a rolling update that cannot begin": Refused(
        "Deployment",
        {"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}},
        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when "
        "`maxSurge` is 0",
    ),
    "a recreation with parameters": Refused(
        "Deployment",
        {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is "
        "'Recreate'",
    ),
    "more than all pods unavailable": Refused(
        "Deployment",
        {"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater '
        "than 100%",
    ),
    "an unknown strategy": Refused(
        "Deployment",
        {"strategy": {"type": "Sideways"}},
        'spec.strategy: Unsupported value: {"type":"Sideways"}: supported values: "Recreate", '
        '"RollingUpdate"',
    ),
    "a selector of everything": Refused(
        "Deployment",
        {"selector": {}},
        "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
    ),
    "a negative history": Refused(
        "DaemonSet",
        {"revisionHistoryLimit": -1},
        "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
    ),
    "a surge with unavailable pods": Refused(
        "DaemonSet",
        {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
        "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when "
        "maxUnavailable is non-zero",
    ),
    "a daemon that cannot be updated": Refused(
        "DaemonSet",
        {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
        "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when "
        "maxSurge is 0",
    ),
    "a partition without a rolling update": Refused(
        "StatefulSet",
        {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
        'spec.updateStrategy.rollingUpdate: Invalid value: {"partition":1}: only allowed for '
        "updateStrategy 'RollingUpdate'",
    ),
    "an unknown order": Refused(
        "StatefulSet",
        {"podManagementPolicy": "Random"},
        "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
    ),
    "a negative first ordinal": Refused(
        "StatefulSet",
        {"ordinals": {"start": -1}},
        "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
    ),
    "an unknown completion mode": Refused(
        "Job",
        {"completionMode": "Half"},
        'spec.completionMode: Unsupported value: "Half": supported values: "Indexed", "NonIndexed"',
    ),
    "a limit for each index without indexes": Refused(
        "Job",
        {"backoffLimitPerIndex": 1},
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
    ),
    "a negative parallelism": Refused(
        "Job",
        {"parallelism": -1, "completions": 1},
        "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
    ),
    "a minute that no hour has": Refused(
        "CronJob",
        {"schedule": "61 * * * *"},
        'spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61',
    ),
    "a schedule of four fields": Refused(
        "CronJob",
        {"schedule": "* * * *"},
        'spec.schedule: Invalid value: "* * * *": expected exactly 5 fields, found 4: [* * * *]',
    ),
    "a zone in the schedule": Refused(
        "CronJob",
        {"schedule": "TZ=UTC * * * * *"},
        'spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, '
        "use timeZone field instead",
    ),
    "the zone of the machine": Refused(
        "CronJob",
        {"timeZone": "Local"},
        'spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined '
        "in https://www.iana.org/time-zones",
    ),
    "an unknown concurrency": Refused(
        "CronJob",
        {"concurrencyPolicy": "Perhaps"},
        'spec.concurrencyPolicy: Unsupported value: "Perhaps": supported values: "Allow", '
        '"Forbid", "Replace"',
    ),
    "a name that is too long for the names of jobs": Refused(
        "CronJob",
        {},
        f'metadata.name: Invalid value: "{"a" * 53}": must be no more than 52 characters',
        "a" * 53,
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused_workloads(case: Refused) -> None:
    body = document(case.kind, case.spec, case.name)
    code, refusal = Client().send("POST", PATHS[case.kind], body)
    assert code == 422, refusal
    assert case.message in refusal["message"]


DEFAULTS: dict[str, tuple[str, Json, Json]] = {
    "a rolling update without parameters": (
        "Deployment",
        {"strategy": {"type": "RollingUpdate"}},
        {
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            }
        },
    ),
    "a rolling update with one parameter": (
        "Deployment",
        {"strategy": {"rollingUpdate": {"maxUnavailable": 0}}},
        {
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"},
            }
        },
    ),
    "an update on deletion": (
        "StatefulSet",
        {"updateStrategy": {"type": "OnDelete"}},
        {"updateStrategy": {"type": "OnDelete"}},
    ),
    "a job": ("Job", {}, {"parallelism": 1, "completions": 1, "backoffLimit": 6}),
    "a job that works off a queue": (
        "Job",
        {"parallelism": 3},
        {"parallelism": 3, "completions": None},
    ),
    "a job that limits the failures of each index": (
        "Job",
        {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1},
        {"parallelism": 1, "backoffLimit": 2147483647},
    ),
    "a job with rules for failed pods": (
        "Job",
        {"podFailurePolicy": {"rules": []}},
        {"podReplacementPolicy": "Failed"},
    ),
}


@pytest.mark.parametrize(("kind", "spec", "want"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults_of_workloads(kind: str, spec: Json, want: Json) -> None:
    made = Client().create(PATHS[kind], document(kind, spec))["spec"]
    assert {field: made.get(field) for field in want} == want


def test_a_stored_cron_job_may_have_a_zone_in_its_schedule() -> None:
    client = Client()
    client.create(PATHS["CronJob"], document("CronJob", {}))
    patch = {"spec": {"schedule": "CRON_TZ=Europe/Berlin 0 * * * *"}}
    code, _ = client.send(
        "PATCH", f"{PATHS['CronJob']}/a", patch, content_type="application/merge-patch+json"
    )
    assert code == 200


def test_typed_clients_send_the_number_zero() -> None:
    rolling = {"maxUnavailable": 0, "maxSurge": 1}
    body = document("DaemonSet", {"updateStrategy": {"rollingUpdate": rolling}})
    binary = as_in_go(body, "apps/v1", "DaemonSet")
    client = Client()
    client.ask("POST", PATHS["DaemonSet"], binary, content_type=PROTOBUF)
    stored = client.get(f"{PATHS['DaemonSet']}/a")
    assert stored["spec"]["updateStrategy"]["rollingUpdate"] == rolling
