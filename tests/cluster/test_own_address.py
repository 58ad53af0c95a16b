"""The Service `kubernetes` leads to the server."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubesched.api.discovery import EndpointSlice
from kubesched.api.plain_kinds import plain_type
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.own_address import publish_own_address
from kubesched.foundation.util.clock import ManualClock


def published(store: Store) -> tuple[Any, Any]:
    """Return the published address and port in each form; None where there is none."""
    older = store.find_record(
        store.catalog.by_type(plain_type("v1", "Endpoints")), "default", "kubernetes"
    )
    newer = store.find_record(store.catalog.by_type(EndpointSlice), "default", "kubernetes")
    if older is None or newer is None:
        return None, None
    (subset,), (endpoint,) = older.data["subsets"], newer.data["endpoints"]
    return (
        (subset["addresses"][0]["ip"], subset["ports"][0]["port"]),
        (endpoint["addresses"][0], newer.data["ports"][0]["port"]),
    )


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://127.0.0.1:6443", ("127.0.0.1", 6443)),
        ("https://localhost:1", ("127.0.0.1", 1)),
        ("https://0.0.0.0:2", ("127.0.0.1", 2)),
        ("https://192.0.2.7:3", ("192.0.2.7", 3)),
        ("https://[2001:db8::1]:4", ("2001:db8::1", 4)),
    ],
)
def test_endpoints_contain_the_address_of_the_server(url: str, address: tuple[str, int]) -> None:
    store = EmbeddedCluster(ManualClock(0), random.Random(0)).store
    assert published(store) == (None, None)
    for where in ("https://192.0.2.1:5", url, url):
        publish_own_address(store, where, 0)
    assert published(store) == (address, address)


def test_without_the_service_there_are_no_endpoints() -> None:
    store = EmbeddedCluster(ManualClock(0), random.Random(0), with_initial_objects=False).store
    publish_own_address(store, "https://127.0.0.1:6443", 0)
    assert published(store) == (None, None)
