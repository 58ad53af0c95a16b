"""Tolerations with Lt and Gt: accepted with their feature, and with integers only."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import ApiError, Pod
from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.rules.strategies.server_features import COMPARISONS

NOT_DECIMAL = "must be a valid decimal integer in canonical form"


def problem(features: set[str], **toleration: Any) -> str:
    """Create a pod with the toleration; return the error of the server."""
    store = Store(features=frozenset(features))
    body = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": [{"key": "sla", **toleration}],
        },
    }
    try:
        store.create(store.catalog.by_type(Pod), "default", body, 0)
    except ApiError as error:
        details = error.status.details
        assert details is not None
        return f"{details.causes[0].field}: {details.causes[0].message}"
    return ""


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_the_feature_decides(operator: str) -> None:
    assert problem({COMPARISONS}, operator=operator, value="-95") == ""
    assert problem(set(), operator=operator, value="-95") == (
        f'spec.tolerations[0].operator: Unsupported value: "{operator}": '
        'supported values: "Equal", "Exists"'
    )


@pytest.mark.parametrize("value", ["", "a", "07", "+1", "-0", "1.5", "1e3"])
def test_values_are_integers_in_canonical_form(value: str) -> None:
    assert problem({COMPARISONS}, operator="Gt", value=value) == (
        f'spec.tolerations[0].value: Invalid value: "{value}": {NOT_DECIMAL}'
    )


def test_an_unknown_operator_is_refused_with_the_list_of_operators() -> None:
    assert problem({COMPARISONS}, operator="Ge", value="1").endswith(
        'supported values: "Equal", "Exists", "Lt", "Gt"'
    )
