"""Validation errors of objects and their texts."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kubesched.api import ApiError
from tests.cluster.apiserver.cluster import Cluster, node, pod

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    "  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
EFFECTS = 'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'


def causes(call: Any, *args: Any, **options: Any) -> list[tuple[str, str]]:
    with pytest.raises(ApiError) as refused:
        call(*args, **options)
    assert refused.value.code == 422, refused.value
    details = refused.value.status.details
    assert details is not None
    return [(cause.field, cause.message) for cause in details.causes]


def resources(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "x", "resources": fields}]}


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "x", **fields}


def spread(**fields: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, **fields}]}


def node_terms(*terms: Any) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": list(terms)}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": selector}
    return {"affinity": {"nodeAffinity": required}}


def node_expression(**fields: Any) -> dict[str, Any]:
    return node_terms({"matchExpressions": [{"key": "k", **fields}]})


NODE_AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
TERM = f"{NODE_AFFINITY}.nodeSelectorTerms[0].matchExpressions[0]"


class Case(NamedTuple):
    spec: dict[str, Any]
    want: list[tuple[str, str]]


PODS = {
    "no containers": Case({"containers": []}, [("spec.containers", "Required value")]),
    "a container without a name": Case(
        {"containers": [{"image": "x"}]}, [("spec.containers[0].name", "Required value")]
    ),
    "a container without an image": Case(
        {"containers": [{"name": "c"}]}, [("spec.containers[0].image", "Required value")]
    ),
    "a bad container name": Case(
        {"containers": [container(name="A_b")]},
        [("spec.containers[0].name", f'Invalid value: "A_b": {LABEL}')],
    ),
    "a container name with dots": Case(
        {"containers": [container(name="a.b")]},
        [("spec.containers[0].name", 'Invalid value: "a.b": must not contain dots')],
    ),
    "two containers of one name": Case(
        {"containers": [container(), container()]},
        [("spec.containers[1].name", 'Duplicate value: "c"')],
    ),
    "an init container with the name of a container": Case(
        {"initContainers": [container()]},
        [("spec.initContainers[0].name", 'Duplicate value: "c"')],
    ),
    "a negative request": Case(
        resources(requests={"cpu": "-1"}),
        [
            (
                "spec.containers[0].resources.requests[cpu]",
                'Invalid value: "-1": must be greater than or equal to 0',
            )
        ],
    ),
    "a request above the limit": Case(
        resources(requests={"cpu": "2"}, limits={"cpu": "1500m"}),
        [
            (
                "spec.containers[0].resources.requests",
                'Invalid value: "2": must be less than or equal to cpu limit of 1500m',
            )
        ],
    ),
    "a device requested without a limit": Case(
        resources(requests={"example.com/gpu": "1"}),
        [
            (
                "spec.containers[0].resources.limits",
                "Required value: Limit must be set for non overcommitable resources",
            )
        ],
    ),
    "fewer devices requested than the limit": Case(
        resources(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "2"}),
        [
            (
                "spec.containers[0].resources.requests",
                'Invalid value: "1": must be equal to example.com/gpu limit of 2',
            )
        ],
    ),
    "a fraction of a device": Case(
        resources(limits={"example.com/gpu": "500m"}),
        [
            (
                f"spec.containers[0].resources.{part}[example.com/gpu]",
                "Invalid value: 500m: must be an integer",
            )
            for part in ("limits", "requests")
        ],
    ),
    "an unknown resource": Case(
        resources(requests={"cores": "1"}),
        [
            (
                "spec.containers[0].resources.requests[cores]",
                f'Invalid value: "cores": must be a standard resource {text}',
            )
            for text in ("type or fully qualified", "for containers")
        ],
    ),
    "huge pages alone": Case(
        resources(limits={"hugepages-2Mi": "2Mi"}),
        [("spec.containers[0].resources", "Forbidden: HugePages require cpu or memory")],
    ),
    "a port out of range": Case(
        {"containers": [container(ports=[{"containerPort": 70000}])]},
        [
            (
                "spec.containers[0].ports[0].containerPort",
                "Invalid value: 70000: must be between 1 and 65535, inclusive",
            )
        ],
    ),
    "one host port twice": Case(
        {"containers": [container(ports=[{"containerPort": n, "hostPort": 80} for n in (1, 2)])]},
        [("spec.containers[0].ports[1].hostPort", 'Duplicate value: "TCP//80"')],
    ),
    "an unknown protocol": Case(
        {"containers": [container(ports=[{"containerPort": 1, "protocol": "ICMP"}])]},
        [
            (
                "spec.containers[0].ports[0].protocol",
                'Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
            )
        ],
    ),
    "a bad node selector": Case(
        {"nodeSelector": {"k": "-v"}},
        [("spec.nodeSelector", f'Invalid value: "-v": {LABEL_VALUE}')],
    ),
    "an unknown restart policy": Case(
        {"restartPolicy": "Sometimes"},
        [
            (
                "spec.restartPolicy",
                'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
            )
        ],
    ),
    "a gate twice": Case(
        {"schedulingGates": [{"name": "g"}, {"name": "g"}]},
        [("spec.schedulingGates[1]", 'Duplicate value: "g"')],
    ),
    "a node for a gated pod": Case(
        {"schedulingGates": [{"name": "g"}], "nodeName": "n"},
        [
            (
                "spec.nodeName",
                "Forbidden: cannot be set until all schedulingGates have been cleared",
            )
        ],
    ),
    "a toleration without a key that is not for all": Case(
        {"tolerations": [{"operator": "Equal", "value": "v"}]},
        [
            (
                "spec.tolerations[0].operator",
                'Invalid value: "Equal": operator must be Exists when `key` is empty, which means '
                '"match all values and all keys"',
            )
        ],
    ),
    "a toleration for existence with a value": Case(
        {"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]},
        [
            (
                "spec.tolerations[0].operator",
                "Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
            )
        ],
    ),
    "a toleration for seconds of the wrong effect": Case(
        {"tolerations": [{"key": "k", "effect": "NoSchedule", "tolerationSeconds": 1}]},
        [
            (
                "spec.tolerations[0].effect",
                "Invalid value: \"NoSchedule\": effect must be 'NoExecute' when "
                "`tolerationSeconds` is set",
            )
        ],
    ),
    "a toleration for an unknown effect": Case(
        {"tolerations": [{"key": "k", "effect": "Never"}]},
        [("spec.tolerations[0].effect", f'Unsupported value: "Never": {EFFECTS}')],
    ),
    "a toleration with an unknown operator": Case(
        {"tolerations": [{"key": "k", "operator": "Gt", "value": "1"}]},
        [
            (
                "spec.tolerations[0].operator",
                'Unsupported value: "Gt": supported values: "Equal", "Exists"',
            )
        ],
    ),
    "no skew": Case(
        spread(maxSkew=0),
        [
            (
                "spec.topologySpreadConstraints[0].maxSkew",
                "Invalid value: 0: must be greater than zero",
            )
        ],
    ),
    "an unknown way to spread": Case(
        spread(whenUnsatisfiable="Maybe"),
        [
            (
                "spec.topologySpreadConstraints[0].whenUnsatisfiable",
                'Unsupported value: "Maybe": supported values: "DoNotSchedule", "ScheduleAnyway"',
            )
        ],
    ),
    "domains for a soft constraint": Case(
        spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2),
        [
            (
                "spec.topologySpreadConstraints[0].minDomains",
                "Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, "
                "not ScheduleAnyway",
            )
        ],
    ),
    "one constraint twice": Case(
        {"topologySpreadConstraints": spread()["topologySpreadConstraints"] * 2},
        [
            (
                "spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}",
                'Duplicate value: "{zone, DoNotSchedule}"',
            )
        ],
    ),
    "label keys without a selector": Case(
        spread(matchLabelKeys=["app"]),
        [
            (
                "spec.topologySpreadConstraints[0].matchLabelKeys",
                "Forbidden: must not be specified when labelSelector is not set",
            )
        ],
    ),
    "no node selector terms": Case(
        node_terms(),
        [
            (
                f"{NODE_AFFINITY}.nodeSelectorTerms",
                "Required value: must have at least one node selector term",
            )
        ],
    ),
    "no values to be in": Case(
        node_expression(operator="In"),
        [
            (
                f"{TERM}.values",
                "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            )
        ],
    ),
    "values for existence": Case(
        node_expression(operator="Exists", values=["v"]),
        [
            (
                f"{TERM}.values",
                "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )
        ],
    ),
    "two values to be greater than": Case(
        node_expression(operator="Gt", values=["1", "2"]),
        [
            (
                f"{TERM}.values",
                "Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
            )
        ],
    ),
    "an unknown operator": Case(
        node_expression(operator="Like"),
        [(f"{TERM}.operator", 'Invalid value: "Like": not a valid selector operator')],
    ),
    "a field that is not the name": Case(
        node_terms({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["v"]}]}),
        [
            (
                f"{NODE_AFFINITY}.nodeSelectorTerms[0].matchFields[0].key",
                'Invalid value: "spec.x": not a valid field selector key',
            )
        ],
    ),
    "a weight out of range": Case(
        {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 101, "preference": {}}
                    ]
                }
            }
        },
        [
            (
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
                ".weight",
                "Invalid value: 101: must be in the range 1-100",
            )
        ],
    ),
    "a pod term without a topology": Case(
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]
                }
            }
        },
        [
            (
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
                ".topologyKey",
                text,
            )
            for text in (
                "Required value: can not be empty",
                'Invalid value: "": name part must be non-empty',
                f'Invalid value: "": {NAME_PART}',
            )
        ],
    ),
    "a claim of nowhere": Case(
        {"resourceClaims": [{"name": "c"}]},
        [
            (
                "spec.resourceClaims[0]",
                'Invalid value: {"name":"c"}: must specify one of: `resourceClaimName`, '
                "`resourceClaimTemplateName`",
            )
        ],
    ),
}


@pytest.mark.parametrize("case", PODS.values(), ids=PODS)
def test_pods_that_are_refused(case: Case) -> None:
    assert causes(Cluster().create, "pods", pod(**case.spec)) == case.want


METADATA = {
    "a label value": (
        {"labels": {"a": "b c"}},
        [("metadata.labels", f'Invalid value: "b c": {LABEL_VALUE}')],
    ),
    "a label key": (
        {"labels": {"a b": "c"}},
        [("metadata.labels", f'Invalid value: "a b": {NAME_PART}')],
    ),
    "an annotation key": (
        {"annotations": {"/x": "c"}},
        [("metadata.annotations", 'Invalid value: "/x": prefix part must be non-empty')],
    ),
    "a finalizer": (
        {"finalizers": ["a b"]},
        [("metadata.finalizers", f'Invalid value: "a b": {NAME_PART}')],
    ),
    "no name": (
        {"name": ""},
        [("metadata.name", "Required value: name or generateName is required")],
    ),
    "an owner without a uid": (
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
        [("metadata.ownerReferences.uid", 'Invalid value: "": must not be empty')],
    ),
}


@pytest.mark.parametrize("case", METADATA.values(), ids=METADATA)
def test_metadata_that_is_refused(case: tuple[dict[str, Any], list[tuple[str, str]]]) -> None:
    fields, want = case
    body = pod("p")
    body["metadata"].update(fields)
    assert causes(Cluster().create, "pods", body) == want


TAINTS = {
    "an unknown effect": (
        {"key": "k", "effect": "Never"},
        [("metadata.taints[0].effect", f'Unsupported value: "Never": {EFFECTS}')],
    ),
    "no effect": ({"key": "k"}, [("metadata.taints[0].effect", "Required value")]),
    "a bad value": (
        {"key": "k", "value": "a b", "effect": "NoSchedule"},
        [("metadata.taints[0].value", f'Invalid value: "a b": {LABEL_VALUE}')],
    ),
}


@pytest.mark.parametrize("case", TAINTS.values(), ids=TAINTS)
def test_taints_that_are_refused(case: tuple[dict[str, Any], list[tuple[str, str]]]) -> None:
    taint, want = case
    body = {**node("n"), "spec": {"taints": [taint]}}
    assert causes(Cluster().create, "nodes", body) == want


def test_a_node_cannot_have_negative_amounts() -> None:
    body = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "-1"}}}
    assert causes(Cluster().create, "nodes", body) == [
        (f"status.{part}.cpu", 'Invalid value: "-1": must be greater than or equal to 0')
        for part in ("capacity", "allocatable")
    ]


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(ApiError) as refused:
        Cluster().create("pods", pod("p", containers=[{}], restartPolicy="x"))
    message = refused.value.status.message
    assert message.startswith('Pod "p" is invalid: [spec.containers[0].name: Required value, ')
    assert message.endswith("]")
    assert "spec.restartPolicy: Unsupported value" in message


FORBIDDEN = "Forbidden: pod updates may not change fields other than "


class Change(NamedTuple):
    spec: dict[str, Any]
    patch: dict[str, Any]
    want: list[tuple[str, str]] | None  # None: allowed


CHANGES = {
    "the image may change": Change({}, {"containers": [{"name": "c", "image": "new"}]}, None),
    "the deadline may come": Change({}, {"activeDeadlineSeconds": 10}, None),
    "the deadline may shrink": Change(
        {"activeDeadlineSeconds": 10}, {"activeDeadlineSeconds": 5}, None
    ),
    "the deadline may not grow": Change(
        {"activeDeadlineSeconds": 10},
        {"activeDeadlineSeconds": 15},
        [
            (
                "spec.activeDeadlineSeconds",
                "Invalid value: 15: must be less than or equal to previous value",
            )
        ],
    ),
    "a toleration may be added": Change(
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"operator": "Exists"}, {"key": "k", "operator": "Exists"}]},
        None,
    ),
    "a toleration may not be removed": Change(
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": []},
        [
            (
                "spec.tolerations",
                "Forbidden: existing toleration can not be modified except its tolerationSeconds",
            )
        ],
    ),
    "a gate may be removed": Change(
        {"schedulingGates": [{"name": "g"}]}, {"schedulingGates": []}, None
    ),
    "a gate may not be added": Change(
        {},
        {"schedulingGates": [{"name": "g"}]},
        [
            (
                "spec.schedulingGates[0].name",
                "Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
            )
        ],
    ),
    "a gated pod may be narrowed down": Change(
        {"schedulingGates": [{"name": "g"}]}, {"nodeSelector": {"a": "b"}}, None
    ),
    "a gated pod may not be moved": Change(
        {"schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "b"}},
        {"nodeSelector": {"a": "c"}},
        [
            (
                "spec.nodeSelector",
                'Invalid value: {"a":"c"}: only additions are allowed (no mutations or deletions)',
            )
        ],
    ),
}


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_changes_of_a_pod(case: Change) -> None:
    cluster = Cluster()
    cluster.create("pods", pod("p", **case.spec))
    patch = {"spec": case.patch}
    if case.want is None:
        cluster.patch("pods", "p", patch, patch_type="strategic")
    else:
        found = causes(cluster.patch, "pods", "p", patch, patch_type="merge")
        assert found == case.want


@pytest.mark.parametrize(
    "patch",
    [
        {"nodeName": "n"},
        {"priority": 5},
        {"schedulerName": "other"},
        {"affinity": {"nodeAffinity": {}}},
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    ],
    ids=lambda patch: next(iter(patch)),
)
def test_the_rest_of_a_pod_is_fixed(patch: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    found = causes(cluster.patch, "pods", "p", {"spec": patch})
    assert [field for field, _ in found] == ["spec"]
    assert found[0][1].startswith(FORBIDDEN)


def test_containers_are_not_added_to_a_pod() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    patch = {"spec": {"containers": [{"name": "d", "image": "x"}]}}
    assert causes(cluster.patch, "pods", "p", patch) == [
        ("spec.containers", "Forbidden: pod updates may not add or remove containers")
    ]


def test_the_value_of_a_priority_class_is_immutable() -> None:
    cluster = Cluster()
    cluster.create("priorityclasses", {"metadata": {"name": "c"}, "value": 5})
    found = causes(cluster.patch, "priorityclasses", "c", {"value": 6})
    assert found == [("value", "Forbidden: may not be changed in an update.")]


def test_users_cannot_create_system_priorities() -> None:
    body = {"metadata": {"name": "c"}, "value": 1_000_000_001}
    assert causes(Cluster().create, "priorityclasses", body) == [
        (
            "value",
            "Forbidden: maximum allowed value of a user defined priority is 1000000000",
        )
    ]


def workload(template: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    labels = {"labels": {"app": "web"}, **metadata}
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": labels, "spec": template},
    }
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}


OF_TEMPLATE = "spec.template.spec"
ENDS = {"restartPolicy": "Never", **resources()}
TEMPLATES: dict[str, tuple[str, dict[str, Any], list[tuple[str, str]]]] = {
    "no containers": ("deployments", {}, [(f"{OF_TEMPLATE}.containers", "Required value")]),
    "minDomains of a soft constraint": (
        "deployments",
        {**resources(), **spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway")},
        [
            (
                f"{OF_TEMPLATE}.topologySpreadConstraints[0].minDomains",
                "Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, "
                "not ScheduleAnyway",
            )
        ],
    ),
    "pods of a deployment that end": (
        "deployments",
        ENDS,
        [
            (
                f"{OF_TEMPLATE}.restartPolicy",
                'Unsupported value: "Never": supported values: "Always"',
            )
        ],
    ),
    "a deadline for pods that are replaced": (
        "statefulsets",
        {**resources(), "activeDeadlineSeconds": 5},
        [
            (
                f"{OF_TEMPLATE}.activeDeadlineSeconds",
                "Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
            )
        ],
    ),
    "pods of a job that never end": (
        "jobs",
        resources(),
        [
            (
                f"{OF_TEMPLATE}.restartPolicy",
                'Required value: valid values: "OnFailure", "Never"',
            )
        ],
    ),
    "another port of the host": (
        "daemonsets",
        {
            "hostNetwork": True,
            "containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])],
        },
        [
            (
                f"{OF_TEMPLATE}.containers[0].ports[0].hostPort",
                "Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
            )
        ],
    ),
}


@pytest.mark.parametrize("case", TEMPLATES.values(), ids=TEMPLATES)
def test_templates_that_are_refused(
    case: tuple[str, dict[str, Any], list[tuple[str, str]]],
) -> None:
    kind, template, want = case
    document = workload(template)
    if kind == "jobs":
        del document["spec"]["selector"]
    assert causes(Cluster().create, kind, document) == want


def test_a_template_may_leave_the_ports_of_the_host_to_the_server() -> None:
    ports = {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]}
    made = Cluster().create("daemonsets", workload(ports))
    assert made["spec"]["template"]["spec"]["containers"][0]["ports"][0].get("hostPort") is None


def test_annotations_of_a_template_are_checked() -> None:
    document = workload(resources(), annotations={"a b": "x"})
    ((field, message),) = causes(Cluster().create, "deployments", document)
    assert field == "spec.template.annotations"
    assert message.startswith('Invalid value: "a b": name part must consist of')


def test_a_cron_job_has_a_template_of_pods_that_end() -> None:
    template = {"spec": {"template": {"spec": resources()}}}
    spec = {"schedule": "* * * * *", "jobTemplate": template}
    document = {"metadata": {"name": "nightly", "namespace": "default"}, "spec": spec}
    want = 'Required value: valid values: "OnFailure", "Never"'
    path = "spec.jobTemplate.spec.template.spec.restartPolicy"
    assert causes(Cluster().create, "cronjobs", document) == [(path, want)]
