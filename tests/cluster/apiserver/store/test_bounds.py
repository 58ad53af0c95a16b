"""The memory limit of the change logs, and the permissions of the data file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kubesched.api import ApiError
from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.http.client_kubeconfig import write_private
from kubesched.cluster.apiserver.store import log_budget
from kubesched.cluster.apiserver.store.persistence import DataFile
from kubesched.errors import KubeschedError


def test_the_log_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_budget, "MOST_BYTES", 1_000_000)
    store = Store(random.Random(0), now_ns=0)
    maps = store.catalog.by_url("", "v1", "configmaps")
    for number in range(400):
        body = {"metadata": {"name": f"c{number % 4}"}, "data": {"a": f"{number}" * 5_000}}
        if number < 4:
            store.create(maps, "default", body, 0)
        else:
            store.update(maps, "default", f"c{number % 4}", body, 0)
    kept = sum(len(change.record.encoded) for change in store.collection(maps).history())
    # Each record counts twice, and one of sixteen is measured.
    assert 10_000 < kept < 700_000
    store.collection(maps).check_invariants(store.revision)
    with pytest.raises(ApiError, match="too old resource version"):
        store.watch(maps, "default", resource_version="10")


def test_large_writes_between_regular_samples_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_budget, "MOST_BYTES", 1_000_000)
    store = Store(random.Random(0), now_ns=0)
    maps = store.catalog.by_url("", "v1", "configmaps")
    store.create(maps, "default", {"metadata": {"name": "c"}}, 0)
    for number in range(600):
        # Every sixteenth write is small, so a predictable sample would miss the large ones.
        text = "small" if store.revision % 16 == 15 or number % 16 == 15 else "x" * 20_000
        body = {"metadata": {"name": "c"}, "data": {"a": f"{number}{text}"}}
        store.update(maps, "default", "c", body, 0)
    kept = sum(len(change.record.encoded) for change in store.collection(maps).history())
    assert kept < 3_000_000  # of 11 million


def test_the_logs_of_many_resources_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_budget, "MOST_BYTES_IN_ALL", 2_000_000)
    store = Store(random.Random(0), now_ns=0)
    plurals = ("configmaps", "secrets", "services", "pods", "serviceaccounts", "endpoints")
    kinds = [store.catalog.by_url("", "v1", plural) for plural in plurals]
    for number in range(600):
        kind = kinds[number % len(kinds)]
        metadata = {"annotations": {"a": f"{number}" + "x" * 20_000}}
        if number < len(kinds):
            extra = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
            body = {"metadata": {"name": "a", **metadata}, **extra}
            if kind.plural == "services":
                body["spec"] = {"ports": [{"port": 1}]}
            store.create(kind, "default", body, 0)
        else:
            patch = {"metadata": metadata}
            store.patch(kind, "default", "a", patch, 0, patch_type="merge")
    kept = sum(
        len(change.record.encoded) for kind in kinds for change in store.collection(kind).history()
    )
    assert kept < 3_000_000  # of 12 million


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_data_file_that_other_users_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "cluster.db"
    DataFile(path).close()
    path.chmod(mode)
    with pytest.raises(KubeschedError, match=f"mode {mode:04o}.*chmod 600"):
        DataFile(path)
    path.chmod(0o600)
    DataFile(path).close()


def test_a_kubeconfig_replaces_a_link_and_not_its_target(tmp_path: Path) -> None:
    precious, path = tmp_path / "precious", tmp_path / "config"
    precious.write_text("mine")
    path.symlink_to(precious)
    write_private(path, "token")
    assert precious.read_text() == "mine"
    assert path.read_text() == "token"
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o077 == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config", "precious"]
