from __future__ import annotations

import random
import re
from typing import Any

import pytest

from kubesched.api import ApiError
from kubesched.cluster.apiserver.rules.resources.served_resources import custom_resource
from kubesched.cluster.apiserver.store.object_store import Store
from tests.cluster.apiserver.cluster import NOW, NOW_NS, Cluster, node, pod


def refusal(call: Any, *args: Any, **options: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as refused:
        call(*args, **options)
    return refused.value.code, refused.value.status.message


def test_every_write_gets_the_next_version() -> None:
    cluster = Cluster()
    before = cluster.store.revision
    first = cluster.create("nodes", node("a"))
    second = cluster.create("nodes", node("b"))
    third = cluster.patch("nodes", "a", {"metadata": {"labels": {"x": "y"}}})
    versions = [int(each["metadata"]["resourceVersion"]) for each in (first, second, third)]
    assert versions == [before + 1, before + 2, before + 3]
    assert cluster.store.revision == before + 3


def test_a_new_object_has_uid_time_and_namespace() -> None:
    cluster = Cluster()
    metadata = cluster.create("configmaps", {"metadata": {"name": "c"}})["metadata"]
    assert metadata["creationTimestamp"] == NOW
    assert metadata["namespace"] == "default"
    pattern = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(pattern, metadata["uid"])


def test_server_fields_in_a_request_are_ignored() -> None:
    cluster = Cluster()
    body = pod("p")
    body["metadata"].update(
        uid="mine", generation=7, deletionTimestamp="2020-01-01T00:00:00Z", selfLink="/x"
    )
    metadata = cluster.create("pods", body)["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["generation"] == 1
    assert "deletionTimestamp" not in metadata
    assert "selfLink" not in metadata


def test_a_version_on_a_new_object_is_refused() -> None:
    body = pod("p")
    body["metadata"]["resourceVersion"] = "5"
    assert refusal(Cluster().create, "pods", body) == (
        500,
        "resourceVersion should not be set on objects to be created",
    )


def test_generated_names_are_random_and_reproducible() -> None:
    names = []
    for _ in range(2):
        cluster = Cluster()
        body = {"metadata": {"generateName": "web-"}, "spec": pod()["spec"]}
        names.append([cluster.create("pods", body)["metadata"]["name"] for _ in range(50)])
    assert names[0] == names[1]
    assert len(set(names[0])) == 50
    for name in names[0]:
        assert re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{5}", name)


def test_a_long_prefix_is_cut_to_leave_room_for_the_suffix() -> None:
    body = {"metadata": {"generateName": "x" * 80}, "spec": pod()["spec"]}
    assert len(Cluster().create("pods", body)["metadata"]["name"]) == 63


def test_a_dry_run_checks_and_changes_nothing() -> None:
    cluster = Cluster()
    before = cluster.store.revision
    created = cluster.create("pods", pod("p"), dry_run=True)
    assert created["spec"]["schedulerName"] == "default-scheduler"
    assert "resourceVersion" not in created["metadata"]
    assert cluster.store.revision == before
    assert refusal(cluster.get, "pods", "p")[0] == 404
    assert refusal(cluster.create, "pods", pod("P"), dry_run=True)[0] == 422


def test_an_update_of_an_older_version_is_refused_and_changes_nothing() -> None:
    cluster = Cluster()
    stale = cluster.create("nodes", node("a"))
    cluster.patch("nodes", "a", {"metadata": {"labels": {"x": "1"}}})
    stale = {**stale, "spec": {"unschedulable": True}}
    assert refusal(cluster.update, "nodes", stale) == (
        409,
        'Operation cannot be fulfilled on nodes "a": the object has been modified; please apply '
        "your changes to the latest version and try again",
    )
    assert "unschedulable" not in cluster.get("nodes", "a").get("spec", {})


def test_the_second_write_with_the_same_version_conflicts() -> None:
    cluster = Cluster()
    read = cluster.create("configmaps", {"metadata": {"name": "c"}, "data": {"n": "0"}})
    cluster.update("configmaps", {**read, "data": {"n": "1"}})
    assert refusal(cluster.update, "configmaps", {**read, "data": {"n": "2"}})[0] == 409
    assert cluster.get("configmaps", "c")["data"] == {"n": "1"}


def test_an_update_without_a_version_wins_where_the_kind_allows_it() -> None:
    cluster = Cluster()
    cluster.create("configmaps", {"metadata": {"name": "c"}})
    changed = cluster.update("configmaps", {"metadata": {"name": "c"}, "data": {"a": "b"}})
    assert changed["data"] == {"a": "b"}


def test_an_update_of_a_lease_requires_a_version() -> None:
    cluster = Cluster()
    cluster.create("leases", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
    body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "you"}}
    assert refusal(cluster.update, "leases", body) == (
        422,
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0x0: '
        "must be specified for an update",
    )


def test_an_update_for_another_uid_is_refused() -> None:
    cluster = Cluster()
    body = cluster.create("nodes", node("a"))
    body = {**body, "metadata": {**body["metadata"], "uid": "other"}}
    code, message = refusal(cluster.update, "nodes", body)
    assert code == 409
    assert "Precondition failed: UID in precondition: other, UID in object meta:" in message


def test_a_write_that_changes_nothing_is_no_write() -> None:
    cluster = Cluster()
    body = cluster.create("nodes", node("a"))
    before = cluster.store.revision
    assert cluster.update("nodes", body) == body
    assert cluster.patch("nodes", "a", {"metadata": {"name": "a"}}) == body
    assert cluster.store.revision == before


def test_an_update_does_not_touch_status_and_a_status_update_touches_nothing_else() -> None:
    cluster = Cluster()
    body = cluster.create("nodes", node("a"))
    attempt = {**body, "spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "1"}}}
    changed = cluster.update("nodes", attempt)
    assert changed["spec"] == {"unschedulable": True}
    assert changed["status"] == body["status"]
    attempt = {**changed, "spec": {}, "status": {"capacity": {"cpu": "2"}}}
    changed = cluster.update("nodes", attempt, subresource="status")
    assert changed["spec"] == {"unschedulable": True}
    assert changed["status"]["capacity"] == {"cpu": "2"}


def test_only_nodes_retain_a_status_set_at_creation() -> None:
    cluster = Cluster()
    assert cluster.create("nodes", node("a"))["status"]["capacity"]["cpu"] == "4"
    body = {**pod("p"), "status": {"phase": "Running"}}
    assert cluster.create("pods", body)["status"]["phase"] == "Pending"
    budget = {"metadata": {"name": "b"}, "status": {"disruptionsAllowed": 3}}
    assert "status" not in cluster.create("poddisruptionbudgets", budget)


def test_kinds_without_status_have_no_status_subresource() -> None:
    cluster = Cluster()
    body = cluster.create("configmaps", {"metadata": {"name": "c"}})
    assert refusal(cluster.update, "configmaps", body, subresource="status") == (
        404,
        "the server could not find the requested resource",
    )


def test_generation_counts_changes_of_the_spec_only() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    labelled = cluster.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
    assert cluster.patch("pods", "p", image)["metadata"]["generation"] == 2
    status = {"status": {"phase": "Running"}}
    changed = cluster.patch("pods", "p", status, subresource="status")
    assert changed["metadata"]["generation"] == 2


def test_undeclared_fields_are_preserved() -> None:
    cluster = Cluster()
    body = pod("p", containers=[{"name": "c", "image": "x", "env": [{"name": "A", "value": "1"}]}])
    body["spec"]["hostAliases"] = [{"ip": "1.2.3.4", "hostnames": ["h"]}]
    cluster.create("pods", body)
    changed = cluster.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}})
    assert changed["spec"]["hostAliases"] == [{"ip": "1.2.3.4", "hostnames": ["h"]}]
    assert changed["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]


def test_nulls_count_as_absent() -> None:
    cluster = Cluster()
    body = pod("p", affinity=None)
    body["metadata"]["creationTimestamp"] = None
    created = cluster.create("pods", body)
    assert "affinity" not in created["spec"]
    assert created["metadata"]["creationTimestamp"] == NOW


def test_a_custom_resource_without_schema_is_stored_unchanged() -> None:
    cluster = Cluster()
    widgets = custom_resource("example.com", "v1", "Widget", "widgets")
    cluster.store.register(widgets)
    body = {"metadata": {"name": "w"}, "spec": {"size": 3, "parts": [None, {"deep": 1}]}}
    created = cluster.create("widgets", body)
    assert created["spec"] == body["spec"]
    assert created["metadata"]["generation"] == 1
    changed = cluster.patch(
        "widgets",
        "w",
        {
            "metadata": {"resourceVersion": created["metadata"]["resourceVersion"]},
            "spec": {"size": 4},
        },
        patch_type="merge",
    )
    assert changed["metadata"]["generation"] == 2
    assert changed["spec"]["parts"] == [None, {"deep": 1}]
    assert refusal(cluster.patch, "widgets", "w", {"spec": {}})[0] == 415


def test_an_object_of_the_wrong_shape_is_a_bad_request() -> None:
    code, message = refusal(Cluster().create, "pods", {"metadata": {"name": "p"}, "spec": "x"})
    assert code == 400
    assert message.startswith('Pod in version "v1" cannot be handled as a Pod: ')


def test_a_bad_quantity_is_a_bad_request_in_the_words_of_the_reference() -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1 core"}}}
    assert refusal(Cluster().create, "pods", pod(containers=[container])) == (
        400,
        'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular '
        "expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    )


def test_namespaces_must_exist() -> None:
    assert refusal(Cluster().create, "pods", pod("p"), "none") == (
        404,
        'namespaces "none" not found',
    )


def test_deleting_a_namespace_deletes_its_objects() -> None:
    cluster = Cluster()
    cluster.create("namespaces", {"metadata": {"name": "team"}})
    cluster.create("pods", pod("p"), "team")
    cluster.create("configmaps", {"metadata": {"name": "c"}}, "team")
    cluster.create("pods", pod("stays"))
    assert cluster.delete("namespaces", "team").gone
    assert cluster.names("pods") == ["stays"]
    assert "team" not in cluster.names("namespaces")
    assert cluster.names("configmaps") == []
    cluster.store.check_invariants()


def test_a_namespace_waits_for_finalizers_and_takes_nothing_new() -> None:
    cluster = Cluster()
    cluster.create("namespaces", {"metadata": {"name": "team"}})
    cluster.create("pods", pod("p", finalizers=["example.com/f"]), "team")
    assert not cluster.delete("namespaces", "team").gone
    assert cluster.get("namespaces", "team")["status"]["phase"] == "Terminating"
    assert refusal(cluster.create, "pods", pod("q"), "team") == (
        403,
        'pods "q" is forbidden: unable to create new content in namespace team because it is '
        "being terminated",
    )
    cluster.patch("pods", "p", {"metadata": {"finalizers": None}}, "team", patch_type="merge")
    assert "team" not in cluster.names("namespaces")


def test_a_namespace_is_labelled_with_its_name() -> None:
    created = Cluster().create("namespaces", {"metadata": {"name": "team"}})
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert created["status"] == {"phase": "Active"}


def test_both_event_apis_show_the_same_event() -> None:
    cluster = Cluster()
    core = cluster.store.catalog.by_url("", "v1", "events")
    body = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "message": "hello",
        "source": {"component": "me"},
        "reason": "Because",
        "type": "Normal",
    }
    cluster.store.create(core, "default", body, NOW_NS)
    stored = cluster.get("events", "e")
    assert (stored["regarding"]["name"], stored["note"]) == ("p", "hello")
    shown = cluster.store.get(core, "default", "e")
    assert shown.data["message"] == "hello"
    assert shown.typed.involved_object.name == "p"
    page = cluster.store.list(core, "default", field_selector="involvedObject.name=p")
    assert len(page.records) == 1
    patched = cluster.store.patch(core, "default", "e", {"count": 2}, NOW_NS)
    assert patched.data["count"] == 2
    assert cluster.get("events", "e")["deprecatedCount"] == 2


def test_a_store_starts_the_same_from_the_same_seed() -> None:
    first, second = (Store(random.Random(3), now_ns=NOW_NS) for _ in range(2))
    for resource in first.catalog.all():
        one = [record.data for record in first.list(resource).records]
        assert one == [record.data for record in second.list(resource).records]
