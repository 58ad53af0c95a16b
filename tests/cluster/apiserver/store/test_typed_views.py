from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.cluster.apiserver.store.typed_views import derive_struct, overlay

PODS: list[dict[str, Any]] = [
    {},
    {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"nodeName": "n"}},
    {
        "metadata": {"name": "a", "finalizers": ["f", "g"]},
        "spec": {
            "containers": [
                {"name": "c", "image": "1", "resources": {"requests": {"cpu": "1"}}},
                {"name": "d", "image": "2"},
            ],
            "nodeSelector": {},
            "terminationGracePeriodSeconds": 0,
        },
        "status": {"phase": "Pending", "conditions": [{"type": "A", "status": "True"}]},
    },
    {
        "metadata": {"name": "b"},
        "spec": {
            "containers": [{"name": "d", "image": "3", "ports": [{"containerPort": 1}]}],
            "affinity": {"nodeAffinity": {}},
            "tolerations": [{"operator": "Exists"}, {"key": "k"}],
        },
        "status": {"conditions": [{"type": "B"}, {"type": "A", "status": "False"}]},
    },
    {
        "spec": {
            "tolerations": [{"key": "k", "effect": "NoSchedule"}],
            "overhead": {"cpu": "1"},
            "hostNetwork": True,
            "schedulingGates": [{"name": "g"}],
        }
    },
]
PAIRS = list(itertools.permutations(range(len(PODS)), 2))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_an_overlay_reads_as_the_new_struct(first: int, second: int) -> None:
    data = PODS[first]
    old, new = msgspec.convert(data, Pod), msgspec.convert(PODS[second], Pod)
    assert msgspec.convert(overlay(data, old, new), Pod) == new


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_derived_struct_is_the_converted_one(first: int, second: int) -> None:
    old = msgspec.convert(PODS[first], Pod)
    assert derive_struct(old, PODS[first], PODS[second]) == msgspec.convert(PODS[second], Pod)


def test_a_derived_struct_shares_what_the_json_shares() -> None:
    data = PODS[2]
    pod = msgspec.convert(data, Pod)
    derived = derive_struct(pod, data, {**data, "status": {"phase": "Running"}})
    assert derived.spec is pod.spec
    assert derived.status.phase == "Running"


def test_a_pod_that_gets_its_node_shares_all_else_of_its_spec() -> None:
    data = PODS[2]
    pod = msgspec.convert(data, Pod)
    bound = {
        "metadata": {"name": "a", "labels": {"x": "y"}},
        "spec": {**data["spec"], "nodeName": "n"},
        "status": {"phase": "Running"},
    }
    derived = derive_struct(pod, data, bound)
    assert derived == msgspec.convert(bound, Pod)
    assert derived.spec.containers is pod.spec.containers


@pytest.mark.parametrize("spec", [{"nodeName": "n"}, {"nodeName": "n", "hostNetwork": True}])
def test_a_pod_changed_beyond_its_binding_gets_a_separate_struct(spec: dict[str, Any]) -> None:
    data = {"metadata": {"name": "a"}, "spec": {"hostNetwork": False, "hostname": "h"}}
    changed = {**data, "spec": {**data["spec"], **spec, "hostname": "other"}}
    derived = derive_struct(msgspec.convert(data, Pod), data, changed)
    assert derived == msgspec.convert(changed, Pod)


def test_a_wrong_type_is_reported_with_its_whole_path() -> None:
    pod = msgspec.convert(PODS[1], Pod)
    with pytest.raises(msgspec.ValidationError, match=r"at `\$\.spec\.nodeName`"):
        derive_struct(pod, PODS[1], {**PODS[1], "spec": {"nodeName": 5}})


def test_an_overlay_preserves_undeclared_fields() -> None:
    data = {
        "metadata": {"name": "a", "managedFields": [{"manager": "m"}]},
        "spec": {
            "securityContext": {"fsGroup": 1},
            "containers": [
                {"name": "c", "image": "1", "env": [{"name": "A"}]},
                {"name": "d", "image": "1", "env": [{"name": "B"}]},
            ],
        },
    }
    old = msgspec.convert(data, Pod)
    swapped = (replace(old.spec.containers[1], image="2"), old.spec.containers[0])
    new = replace(old, spec=replace(old.spec, containers=swapped, node_name="n"))
    assert overlay(data, old, new) == {
        "metadata": {"name": "a", "managedFields": [{"manager": "m"}]},
        "spec": {
            "securityContext": {"fsGroup": 1},
            "nodeName": "n",
            "containers": [
                {"name": "d", "image": "2", "env": [{"name": "B"}]},
                {"name": "c", "image": "1", "env": [{"name": "A"}]},
            ],
        },
    }
