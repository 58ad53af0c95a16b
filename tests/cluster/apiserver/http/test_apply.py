"""Server-side apply: field ownership, conflicts, and removal of fields."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubesched.cluster.apiserver.rules.apply.field_ownership import fields_v1, tree_paths
from tests.cluster.apiserver.http.client import Client

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def apply(
    client: Client, path: str, body: dict[str, Any], manager: str, options: str = ""
) -> tuple[int, Any]:
    return client.send("PATCH", f"{path}?fieldManager={manager}{options}", body, content_type=APPLY)


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def deployment(replicas: int | None = None, **images: str) -> dict[str, Any]:
    containers = [{"name": name, "image": image} for name, image in images.items()]
    labels = {"app": "web"}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    return {**head, "spec": spec}


def owned(body: Any) -> dict[str, Any]:
    return {each["manager"]: each["fieldsV1"] for each in body["metadata"]["managedFields"]}


def test_the_first_apply_creates_and_owns() -> None:
    client = Client()
    code, made = apply(client, f"{DEPLOYMENTS}/web", deployment(2, c="nginx"), "me")
    assert code == 201
    assert made["spec"]["strategy"]["type"] == "RollingUpdate"
    assert owned(made) == {
        "me": {
            "f:spec": {
                "f:replicas": {},
                "f:selector": {},
                "f:template": {
                    "f:metadata": {"f:labels": {"f:app": {}}},
                    "f:spec": {
                        "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}}}
                    },
                },
            }
        }
    }


def test_the_same_apply_changes_nothing() -> None:
    client = Client()
    apply(client, f"{DEPLOYMENTS}/web", deployment(2, c="nginx"), "me")
    revision = client.store.revision
    client.clock.advance(10**10)
    code, _ = apply(client, f"{DEPLOYMENTS}/web", deployment(2, c="nginx"), "me")
    assert (code, client.store.revision) == (200, revision)


def test_fields_that_are_no_longer_applied_are_removed() -> None:
    client = Client()
    apply(client, f"{DEPLOYMENTS}/web", deployment(2, c="nginx", side="x"), "me")
    _, made = apply(client, f"{DEPLOYMENTS}/web", deployment(None, c="nginx:2"), "me")
    containers = made["spec"]["template"]["spec"]["containers"]
    assert [(each["name"], each["image"]) for each in containers] == [("c", "nginx:2")]
    assert made["spec"]["replicas"] == 1  # its default


def test_fields_of_other_managers_stay() -> None:
    client = Client()
    apply(client, f"{CONFIG_MAPS}/c", config_map(a="1", shared="x"), "me")
    apply(client, f"{CONFIG_MAPS}/c", config_map(b="2", shared="x"), "you")
    _, made = apply(client, f"{CONFIG_MAPS}/c", config_map(), "me")
    assert made["data"] == {"b": "2", "shared": "x"}


def test_a_conflict_names_the_owner_and_the_field() -> None:
    client = Client()
    apply(client, f"{CONFIG_MAPS}/c", config_map(a="1"), "me")
    code, refusal = apply(client, f"{CONFIG_MAPS}/c", config_map(a="2"), "you")
    assert code == 409
    assert refusal["message"] == 'Apply failed with 1 conflict: conflict with "me": .data.a'
    assert refusal["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.a"}
    ]
    code, made = apply(client, f"{CONFIG_MAPS}/c", config_map(a="2"), "you", "&force=true")
    assert (code, made["data"], owned(made).keys()) == (200, {"a": "2"}, {"you"})


def test_several_conflicts_are_listed() -> None:
    client = Client()
    apply(client, f"{DEPLOYMENTS}/web", deployment(2, c="nginx"), "me")
    _, refusal = apply(client, f"{DEPLOYMENTS}/web", deployment(3, c="nginx:2"), "you")
    assert refusal["message"] == (
        'Apply failed with 2 conflicts: conflicts with "me":\n- .spec.replicas\n'
        '- .spec.template.spec.containers[name="c"].image'
    )


def test_an_update_takes_ownership_of_changed_fields() -> None:
    client = Client()
    apply(client, f"{DEPLOYMENTS}/web", deployment(2, c="nginx"), "me")
    code, patched = client.send(
        "PATCH",
        f"{DEPLOYMENTS}/web",
        {"spec": {"replicas": 5}},
        content_type=MERGE,
        user_agent="kubectl/v1",
    )
    assert code == 200
    assert owned(patched)["kubectl"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in owned(patched)["me"]["f:spec"]
    code, refusal = apply(client, f"{DEPLOYMENTS}/web", deployment(2, c="nginx"), "me")
    assert code == 409
    assert 'conflict with "kubectl" using apps/v1 at 2027-' in refusal["message"]


def test_the_creator_owns_the_fields_of_an_object_before_its_first_apply() -> None:
    client = Client()
    client.create(CONFIG_MAPS, config_map(a="1"))
    code, refusal = apply(client, f"{CONFIG_MAPS}/c", config_map(a="2"), "me")
    assert (code, '"before-first-apply"' in refusal["message"]) == (409, True)
    code, made = apply(client, f"{CONFIG_MAPS}/c", config_map(a="1", b="2"), "me")
    assert (code, made["data"]) == (200, {"a": "1", "b": "2"})


def test_bad_applies_are_refused() -> None:
    client = Client()
    path = f"{CONFIG_MAPS}/c"
    _, unnamed = client.send("PATCH", path, config_map(), content_type=APPLY)
    assert unnamed["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for '
        "apply patch"
    )
    assert apply(client, path, {"kind": "Pod", "apiVersion": "v1"}, "me")[0] == 400
    managed = config_map() | {"metadata": {"name": "c", "managedFields": [{"manager": "x"}]}}
    assert apply(client, path, managed, "me")[1]["message"] == "metadata.managedFields must be nil"
    other = config_map() | {"metadata": {"name": "d"}}
    assert apply(client, path, other, "me")[0] == 400
    assert client.store.revision == Client().store.revision


def test_a_dry_run_changes_nothing() -> None:
    client = Client()
    code, made = apply(client, f"{CONFIG_MAPS}/c", config_map(a="1"), "me", "&dryRun=All")
    assert (code, made["data"]) == (201, {"a": "1"})
    assert client.send("GET", f"{CONFIG_MAPS}/c")[0] == 404


STEPS = st.sampled_from(["f:a", "f:b", 'k:{"name":"c"}', 'v:"x"'])


@given(st.sets(st.lists(STEPS, min_size=1, max_size=4).map(tuple)))
def test_sets_of_fields_survive_being_written(raw: set[tuple[str, ...]]) -> None:
    # Only a leaf can be a member without the mark `.`.
    ends = {path for path in raw if not any(o != path and o[: len(path)] == path for o in raw)}
    assert tree_paths(fields_v1(ends)) == ends


DATA = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"))


@given(st.lists(st.tuples(st.sampled_from(["me", "you"]), DATA), max_size=8))
def test_forced_applies_leave_exactly_the_fields_that_were_last_applied(
    writes: list[tuple[str, dict[str, str]]],
) -> None:
    client = Client()
    wanted: dict[str, dict[str, str]] = {}
    for manager, data in writes:
        code, body = apply(client, f"{CONFIG_MAPS}/c", config_map(**data), manager, "&force=true")
        assert code in (200, 201), body
        for other in wanted.values():  # an overwritten field loses its owner
            for key in [key for key, value in data.items() if other.get(key, value) != value]:
                del other[key]
        wanted[manager] = dict(data)
        expected = {key: value for each in wanted.values() for key, value in each.items()}
        assert body.get("data", {}) == expected, json.dumps(writes)


def scale(replicas: int) -> dict[str, Any]:
    head = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}}
    return {**head, "spec": {"replicas": replicas}}


def owners_of_replicas(client: Client) -> set[tuple[str, str, str]]:
    """Return the managers that own the number of replicas: name, operation, subresource."""
    return {
        (each["manager"], each["operation"], each.get("subresource", ""))
        for each in client.get(f"{DEPLOYMENTS}/web")["metadata"]["managedFields"]
        if "f:replicas" in each["fieldsV1"].get("f:spec", {})
    }


def test_an_update_of_the_scale_takes_the_replicas() -> None:
    client = Client()
    path = f"{DEPLOYMENTS}/web"
    apply(client, path, deployment(2, c="nginx"), "me")
    code, shown = client.send("PUT", f"{path}/scale?fieldManager=scaler", scale(5))
    assert (code, shown["spec"]["replicas"]) == (200, 5)
    assert owners_of_replicas(client) == {("scaler", "Update", "scale")}
    (entry,) = shown["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["fieldsV1"]) == (
        "autoscaling/v1",
        {"f:spec": {"f:replicas": {}}},
    )
    code, refusal = apply(client, path, deployment(2, c="nginx"), "me")
    assert code == 409
    assert 'conflict with "scaler" with subresource "scale"' in refusal["message"]
    # An apply without the field leaves the number alone.
    assert apply(client, path, deployment(None, c="nginx"), "me")[0] == 200
    assert client.get(path)["spec"]["replicas"] == 5
    code, _ = client.send("PATCH", f"{path}/scale", {"spec": {"replicas": 6}}, content_type=MERGE)
    assert code == 200
    assert client.get(path)["spec"]["replicas"] == 6


def test_a_scale_is_applied() -> None:
    client = Client()
    path = f"{DEPLOYMENTS}/web"
    assert apply(client, f"{path}/scale", scale(3), "scaler")[0] == 404
    apply(client, path, deployment(2, c="nginx"), "me")
    code, refusal = apply(client, f"{path}/scale", scale(3), "scaler")
    assert code == 409
    assert refusal["details"]["causes"][0]["field"] == ".spec.replicas"
    code, shown = apply(client, f"{path}/scale", scale(3), "scaler", "&force=true")
    assert (code, shown["kind"], shown["spec"]["replicas"]) == (200, "Scale", 3)
    assert owners_of_replicas(client) == {("scaler", "Apply", "scale")}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    code, refusal = apply(client, f"{path}/scale", body, "scaler")
    assert (code, refusal["message"]) == (
        400,
        "the object provided is unrecognized (must be of type Scale): got apps/v1, Kind=Deployment",
    )
