"""Resource names and vectors of amounts (docs/reference/05 §3.1)."""

from __future__ import annotations

import pytest

from kubesched.api.quantity import parse_quantity
from kubesched.api.resource_amounts import Resources
from kubesched.api.resource_names import (
    is_extended_resource_name,
    is_native_resource_name,
    is_pod_level_resource_name,
    is_scalar_resource_name,
)

NAMES = {
    # name: (extended, scalar)
    "nvidia.com/gpu": (True, True),
    "example.com/a_b.c": (True, True),
    "Example.com/x": (False, False),
    "foo": (False, False),
    "cpu": (False, False),
    "pods": (False, False),
    "storage": (False, False),
    "hugepages-2Mi": (False, True),
    "attachable-volumes-csi-x": (False, True),
    "kubernetes.io/something": (False, True),
    "sub.kubernetes.io/x": (False, True),
    "notkubernetes.io/x": (False, True),
    "deviceclass.resource.kubernetes.io/c": (False, True),
    "requests.example.com/x": (False, False),
    "example.com/a/b": (False, False),
    "example.com/": (False, False),
    "/x": (False, False),
    f"example.com/{'x' * 63}": (True, True),
    f"example.com/{'x' * 64}": (False, False),
    # The quota prefix counts: the name with nine more characters must be a DNS name.
    f"{'.'.join(['x' * 60] * 4)}/x": (True, True),
    f"{'.'.join(['x' * 61] * 4)}/x": (False, False),
}


@pytest.mark.parametrize(("name", "want"), NAMES.items(), ids=lambda each: str(each)[:40])
def test_names(name: str, want: tuple[bool, bool]) -> None:
    assert (is_extended_resource_name(name), is_scalar_resource_name(name)) == want


def test_native_names_have_no_domain_or_that_of_kubernetes() -> None:
    assert is_native_resource_name("cpu")
    assert is_native_resource_name("kubernetes.io/x")
    assert not is_native_resource_name("example.com/x")


def test_names_that_support_pod_level_requests() -> None:
    names = ["cpu", "memory", "hugepages-1Gi", "ephemeral-storage", "example.com/x"]
    assert [is_pod_level_resource_name(name) for name in names] == [True, True, True, False, False]


def test_a_list_on_the_wire_is_counted_in_the_scheduler_units() -> None:
    amounts = {
        "cpu": "1500m",
        "memory": "1Gi",
        "ephemeral-storage": 10,
        "pods": "110",
        "example.com/gpu": "2",
        "hugepages-2Mi": "0",
        "unknown": "7",
    }
    want = Resources(1500, 2**30, 10, {"example.com/gpu": 2, "hugepages-2Mi": 0})
    assert Resources.from_resource_list(amounts) == want
    quantities = {name: parse_quantity(raw) for name, raw in amounts.items()}
    assert Resources.from_quantities(quantities) == want
    assert Resources.allowed_pods(amounts) == 110
    assert Resources.allowed_pods({}) == 0


def test_amounts_are_added_and_subtracted_in_place() -> None:
    total = Resources(100, 10, 1, {"example.com/a": 1})
    copy = total.clone()
    total.add(Resources(50, 5, 5, {"example.com/a": 2, "example.com/b": 3}))
    assert total == Resources(150, 15, 6, {"example.com/a": 3, "example.com/b": 3})
    total.subtract(Resources(50, 5, 5, {"example.com/a": 2, "example.com/b": 3}))
    assert total == Resources(100, 10, 1, {"example.com/a": 1, "example.com/b": 0})
    assert copy == Resources(100, 10, 1, {"example.com/a": 1})


def test_an_amount_by_name() -> None:
    resources = Resources(100, 10, 1, {"example.com/a": 7})
    names = ["cpu", "memory", "ephemeral-storage", "example.com/a", "pods"]
    assert [resources.amount(name) for name in names] == [100, 10, 1, 7, 0]
