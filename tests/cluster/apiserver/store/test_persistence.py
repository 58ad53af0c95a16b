"""Persistence: acknowledged writes survive a restart, and revisions and uids stay unique."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubesched.api import ApiError, PodGroup
from kubesched.cluster.apiserver.store.custom_resource_definitions import (
    CUSTOM_RESOURCE_DEFINITION,
    serve_definition,
)
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.persistence import DataFile, open_store
from kubesched.errors import KubeschedError

NOW_NS = 1_800_000_000 * 10**9


def opened(path: Path) -> tuple[DataFile, Store]:
    data = DataFile(path)
    return data, open_store(data, random.Random(1), NOW_NS)


def reopened(data: DataFile, path: Path) -> tuple[DataFile, Store]:
    data.close()
    return opened(path)


def content(store: Store) -> dict[str, Any]:
    return {
        f"{resource.group_resource}/{key}": (record.revision, record.data)
        for resource in store.catalog.all()
        for key, record in store.collection(resource).objects.items()
    }


def config_maps(store: Store) -> Any:
    return store.catalog.by_url("", "v1", "configmaps")


def put(store: Store, name: str, value: str = "x") -> None:
    body = {"metadata": {"name": name}, "data": {"a": value}}
    if store.find_record(config_maps(store), "default", name) is None:
        store.create(config_maps(store), "default", body, NOW_NS)
    else:
        store.update(config_maps(store), "default", name, body, NOW_NS)


WRITES = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "reopen"]), st.sampled_from("abc"), st.text()),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(WRITES)
def test_a_store_is_the_same_after_it_was_opened_again(
    tmp_path: Path, writes: list[tuple[str, str, str]]
) -> None:
    path = tmp_path / f"{random.getrandbits(64)}.db"
    data, store = opened(path)
    for action, name, value in writes:
        if action == "put":
            put(store, name, value.replace("\ud800", ""))
        elif action == "delete":
            if store.find_record(config_maps(store), "default", name) is not None:
                store.delete(config_maps(store), "default", name, NOW_NS)
        else:
            before, revision = content(store), store.revision
            data, store = reopened(data, path)
            assert (content(store), store.revision) == (before, revision)
            store.check_invariants()
    data.close()


def test_watches_from_before_a_restart_must_list_again(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    data, store = opened(path)
    put(store, "a")
    seen = store.revision
    put(store, "b")
    data, store = reopened(data, path)
    with pytest.raises(ApiError) as refusal:
        store.watch(config_maps(store), resource_version=str(seen))
    assert refusal.value.code == 410
    watcher = store.watch(config_maps(store), resource_version=str(store.revision))
    put(store, "c")
    assert [each.type for each in watcher.read()] == ["ADDED"]
    data.close()


def test_uids_are_unique(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    data, store = opened(path)
    put(store, "a")
    data, store = reopened(data, path)
    put(store, "b")
    uids = [value["metadata"]["uid"] for _, value in content(store).values()]
    assert len(uids) == len(set(uids))
    data.close()


def test_custom_resources_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    data, store = opened(path)
    store.register(CUSTOM_RESOURCE_DEFINITION)
    names = {"plural": "widgets", "kind": "Widget"}
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    version = {"name": "v1", "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "x.io", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "widgets.x.io"}, "spec": spec}
    serve_definition(store, store.create(CUSTOM_RESOURCE_DEFINITION, None, definition, NOW_NS).data)
    widgets = store.catalog.by_url("x.io", "v1", "widgets")
    store.create(widgets, "default", {"metadata": {"name": "w"}, "size": 1}, NOW_NS)
    data, store = reopened(data, path)
    widgets = store.catalog.by_url("x.io", "v1", "widgets")
    assert store.get(widgets, "default", "w").data["size"] == 1
    # The process dies after it deleted the definition and before it deleted the objects.
    store.delete(CUSTOM_RESOURCE_DEFINITION, None, "widgets.x.io", NOW_NS)
    for _ in range(2):
        data, store = reopened(data, path)
        assert "widgets" not in {each.plural for each in store.catalog.all()}
    data.close()


def test_the_deletion_of_a_namespace_resumes_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    data, store = opened(path)
    namespaces = store.catalog.by_url("", "v1", "namespaces")
    store.create(namespaces, None, {"metadata": {"name": "n"}}, NOW_NS)
    data.close()
    with sqlite3.connect(path) as raw:
        change = "UPDATE objects SET data = json_set(data, '$.metadata.deletionTimestamp', 'x')"
        raw.execute(f"{change} WHERE resource = 'namespaces' AND key = 'n'")
    raw.close()
    data, store = opened(path)
    assert store.find_record(namespaces, None, "n") is None
    data.close()


def test_a_write_that_fails_on_disk_has_no_effect(tmp_path: Path) -> None:
    data, store = opened(tmp_path / "c.db")
    put(store, "a")
    before, revision = content(store), store.revision
    data.close()
    with pytest.raises(ApiError, match="cannot write"):
        put(store, "b")
    assert content(store) == before
    # The store would use the number again after a restart.
    assert store.revision == revision


def test_only_one_process_can_open_a_file(tmp_path: Path) -> None:
    data, _ = opened(tmp_path / "c.db")
    with pytest.raises(KubeschedError, match="another process uses it"):
        opened(tmp_path / "c.db")
    data.close()
    assert (tmp_path / "c.db").stat().st_mode & 0o777 == 0o600


def test_other_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("this is not a database" * 100)
    other.chmod(0o600)
    with pytest.raises(KubeschedError, match="cannot use"):
        DataFile(other)
    with sqlite3.connect(tmp_path / "future") as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    (tmp_path / "future").chmod(0o600)
    with pytest.raises(KubeschedError, match="format 99 is not known"):
        DataFile(tmp_path / "future")


@pytest.mark.parametrize("damaged", [b"\xff\xfe", b"{", b"", b"[5]", "x", 5], ids=repr)
def test_a_damaged_object_is_named(tmp_path: Path, damaged: bytes | str | int) -> None:
    path = tmp_path / "c.db"
    data, store = opened(path)
    put(store, "a")
    data.close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE objects SET data = ? WHERE key = 'default/a'", (damaged,))
    raw.close()
    data = DataFile(path)
    with pytest.raises(KubeschedError, match=r"c\.db: the object default/a of .* is damaged"):
        open_store(data, random.Random(1), NOW_NS)
    data.close()


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        ("UPDATE revision SET value = '[5]'", "the number of the last change"),
        ("UPDATE revision SET value = x'ff'", "the number of the last change"),
        ("UPDATE objects SET revision = 'x'", r"the object default/a of .*"),
        ("UPDATE secrets SET value = 5", "the secret token"),
        ("UPDATE secrets SET value = 'text'", "the secret token"),
    ],
)
def test_values_of_wrong_types_are_named(tmp_path: Path, damage: str, part: str) -> None:
    path = tmp_path / "c.db"
    data, store = opened(path)
    put(store, "a")
    data.secret("token", lambda: b"one")
    data.close()
    with sqlite3.connect(path) as raw:
        raw.execute(damage)
    raw.close()
    data = DataFile(path)

    def read_all() -> None:
        open_store(data, random.Random(1), NOW_NS)
        data.secret("token", lambda: b"two")

    with pytest.raises(KubeschedError, match=rf"c\.db: {part} is damaged"):
        read_all()
    data.close()


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    data, _ = opened(tmp_path / "c.db")
    assert data.secret("token", lambda: b"one") == b"one"
    data.close()
    data, _ = opened(tmp_path / "c.db")
    assert data.secret("token", lambda: b"two") == b"one"
    data.close()


def test_objects_of_a_disabled_feature_return_when_it_is_enabled(tmp_path: Path) -> None:
    data, store = opened(tmp_path / "data")
    groups = store.catalog.by_type(PodGroup)
    body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    store.create(groups, "default", body, NOW_NS)
    data.close()
    data = DataFile(tmp_path / "data")
    without = open_store(data, random.Random(2), NOW_NS, frozenset())
    with pytest.raises(ApiError):
        without.catalog.by_type(PodGroup)
    data, store = reopened(data, tmp_path / "data")
    assert store.get(store.catalog.by_type(PodGroup), "default", "g").data["spec"]
    data.close()
