from __future__ import annotations

import pytest

from kubesched.api import ApiError
from tests.cluster.apiserver.cluster import Cluster, pod


def filled(count: int = 7, **options: object) -> Cluster:
    cluster = Cluster(**options)
    for number in range(count):
        cluster.create("pods", pod(f"p{number}", labels={"even": str(number % 2 == 0).lower()}))
    return cluster


def test_lists_are_in_order_of_namespace_and_name() -> None:
    cluster = Cluster()
    for name, namespace in (("b", "default"), ("a", "kube-system"), ("a", "default")):
        cluster.create("pods", pod(name), namespace)
    page = cluster.store.list(cluster.resource("pods"))
    assert [record.key for record in page.records] == ["default/a", "default/b", "kube-system/a"]
    assert cluster.names("pods", namespace="kube-system") == ["a"]


def test_a_namespace_is_not_confused_with_one_whose_name_it_begins() -> None:
    cluster = Cluster()
    for namespace in ("team", "team-a", "team0"):
        cluster.create("namespaces", {"metadata": {"name": namespace}})
        cluster.create("pods", pod(f"in-{namespace}"), namespace)
    assert cluster.names("pods", namespace="team") == ["in-team"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10])
def test_pages_cover_the_list(limit: int) -> None:
    cluster = filled()
    resource = cluster.resource("pods")
    names: list[str] = []
    token = ""
    while True:
        page = cluster.store.list(resource, limit=limit, continue_token=token)
        names += [record.data["metadata"]["name"] for record in page.records]
        if not page.continue_token:
            break
        assert page.remaining == 7 - len(names)
        token = page.continue_token
    assert names == [f"p{number}" for number in range(7)]


def test_pages_show_the_state_of_the_first_page() -> None:
    cluster = filled()
    resource = cluster.resource("pods")
    first = cluster.store.list(resource, "default", limit=3)
    cluster.delete("pods", "p4")
    cluster.create("pods", pod("p3a"))
    cluster.patch("pods", "p5", {"metadata": {"labels": {"new": "x"}}})
    rest = cluster.store.list(resource, "default", limit=9, continue_token=first.continue_token)
    assert [record.data["metadata"]["name"] for record in rest.records] == ["p3", "p4", "p5", "p6"]
    assert "new" not in rest.records[2].data["metadata"]["labels"]
    assert rest.revision == first.revision


def test_an_expired_token_is_refused_with_a_new_token() -> None:
    cluster = filled(history=5)
    resource = cluster.resource("pods")
    token = cluster.store.list(resource, limit=3).continue_token
    for number in range(20):
        cluster.patch("pods", "p0", {"metadata": {"labels": {"n": str(number)}}})
    with pytest.raises(ApiError, match="The provided continue parameter is too old") as refused:
        cluster.store.list(resource, continue_token=token)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    again = refused.value.status.metadata.continue_token
    page = cluster.store.list(resource, continue_token=again)
    assert [record.data["metadata"]["name"] for record in page.records] == ["p3", "p4", "p5", "p6"]
    assert page.revision == cluster.store.revision


@pytest.mark.parametrize("token", ["nonsense", "e30", "bnVsbA"])
def test_a_continue_token_that_was_never_issued_is_refused(token: str) -> None:
    cluster = filled()
    with pytest.raises(ApiError, match="continue key is not valid") as refused:
        cluster.store.list(cluster.resource("pods"), continue_token=token)
    assert refused.value.code == 400


def test_a_selection_hides_how_many_remain() -> None:
    cluster = filled()
    page = cluster.store.list(cluster.resource("pods"), label_selector="even=true", limit=2)
    assert [record.data["metadata"]["name"] for record in page.records] == ["p0", "p2"]
    assert page.continue_token
    assert page.remaining is None


def test_fields_and_labels_select_together() -> None:
    cluster = filled()
    cluster.bind("p2", "n")
    found = cluster.names("pods", label_selector="even=true", field_selector="spec.nodeName=n")
    assert found == ["p2"]
    assert cluster.names("pods", field_selector="spec.hostNetwork=true") == []
    assert len(cluster.names("pods", field_selector="spec.hostNetwork=false")) == 7


def test_a_list_can_go_back_to_an_earlier_version() -> None:
    cluster = filled(3)
    then = cluster.store.revision
    cluster.delete("pods", "p1")
    cluster.create("pods", pod("p9"))
    cluster.bind("p0", "n")
    version = str(then)
    page = cluster.store.list(cluster.resource("pods"), resource_version=version, exact=True)
    assert [record.data["metadata"]["name"] for record in page.records] == ["p0", "p1", "p2"]
    assert "nodeName" not in page.records[0].data["spec"]
    assert page.revision == then


def test_an_exact_version_no_longer_in_the_log_is_too_old() -> None:
    cluster = filled(30, history=5)
    with pytest.raises(ApiError, match="The resourceVersion for the provided list is too old"):
        cluster.store.list(cluster.resource("pods"), resource_version="1", exact=True)


def test_a_collection_is_deleted_by_selection() -> None:
    cluster = filled()
    page = cluster.store.delete_collection(
        cluster.resource("pods"), "default", cluster.now_ns, label_selector="even=true"
    )
    assert [record.data["metadata"]["name"] for record in page.records] == ["p0", "p2", "p4", "p6"]
    assert cluster.names("pods") == ["p1", "p3", "p5"]
