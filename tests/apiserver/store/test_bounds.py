"""What a store keeps has an end, and what it writes is for its owner only."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kubesched.api import ApiError
from kubesched.apiserver import Store
from kubesched.apiserver.http.kubeconfig import write_private
from kubesched.apiserver.store import collection
from kubesched.apiserver.store.persistence import DataFile
from kubesched.util.errors import KubeschedError


def test_the_log_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_MOST_BYTES", 1_000_000)
    store = Store(random.Random(0), now_ns=0)
    maps = store.catalog.by_url("", "v1", "configmaps")
    for number in range(400):
        body = {"metadata": {"name": f"c{number % 4}"}, "data": {"a": f"{number}" * 5_000}}
        if number < 4:
            store.create(maps, "default", body, 0)
        else:
            store.update(maps, "default", f"c{number % 4}", body, 0)
    kept = sum(len(change.record.encoded) for change in store.collection(maps).history())
    # Each is there twice, and one of sixteen is measured.
    assert 100_000 < kept < 700_000
    store.collection(maps).check_invariants(store.revision)
    with pytest.raises(ApiError, match="too old resource version"):
        store.watch(maps, "default", resource_version="10")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_data_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "cluster.db"
    DataFile(path).close()
    path.chmod(mode)
    with pytest.raises(KubeschedError, match=f"mode {mode:04o}.*chmod 600"):
        DataFile(path)
    path.chmod(0o600)
    DataFile(path).close()


def test_a_kubeconfig_replaces_a_link_and_leaves_alone_what_it_leads_to(tmp_path: Path) -> None:
    precious, path = tmp_path / "precious", tmp_path / "config"
    precious.write_text("mine")
    path.symlink_to(precious)
    write_private(path, "token")
    assert precious.read_text() == "mine"
    assert path.read_text() == "token"
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o077 == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config", "precious"]
