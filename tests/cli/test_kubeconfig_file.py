"""Contexts are added to a shared kubeconfig and removed without changing the rest."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import yaml

from kubesched.cli.kubeconfig_file import kubeconfig_file
from kubesched.cluster.apiserver.http.client_kubeconfig import kubeconfig
from kubesched.errors import KubeschedError

OURS = kubeconfig("https://127.0.0.1:1234", token="secret")
THEIRS = """\
# my clusters, with a comment
apiVersion: v1
kind: Config
clusters: [{name: prod, cluster: {server: https://prod}}]
users: [{name: me, user: {token: t}}]
contexts: [{name: prod, context: {cluster: prod, user: me}}]
current-context: prod
preferences: {colors: true}
"""


def names(path: Path, key: str) -> list[str]:
    return [each["name"] for each in yaml.safe_load(path.read_text())[key]]


def test_a_new_kubeconfig_is_deleted_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with kubeconfig_file(OURS, path):
        content = yaml.safe_load(path.read_text())
        assert content["current-context"] == "kubesched"
        assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1234"
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_a_temporary_kubeconfig_is_deleted_at_the_end() -> None:
    with kubeconfig_file(OURS, None) as entry:
        assert names(entry.path, "contexts") == ["kubesched"]
    assert not entry.path.exists()


def test_an_existing_file_gets_a_context_and_is_as_before_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    with kubeconfig_file(OURS, path):
        content = yaml.safe_load(path.read_text())
        assert names(path, "contexts") == ["prod", "kubesched"]
        assert names(path, "clusters") == ["prod", "kubesched"]
        assert names(path, "users") == ["me", "kubesched-admin"]
        assert content["current-context"] == "kubesched"
        assert content["preferences"] == {"colors": True}
    assert path.read_text() == THEIRS


def test_concurrent_changes_of_others_are_preserved(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    with kubeconfig_file(OURS, path):
        content = yaml.safe_load(path.read_text())
        content["contexts"].append({"name": "new", "context": {"cluster": "prod", "user": "me"}})
        path.write_text(yaml.safe_dump(content))
    assert names(path, "contexts") == ["prod", "new"]
    assert names(path, "clusters") == ["prod"]
    assert names(path, "users") == ["me"]
    assert yaml.safe_load(path.read_text())["current-context"] == "prod"


def test_a_context_that_the_user_selects_stays_current(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    with kubeconfig_file(OURS, path):
        content = yaml.safe_load(path.read_text()) | {"current-context": "other"}
        path.write_text(yaml.safe_dump(content))
    assert yaml.safe_load(path.read_text())["current-context"] == "other"


def test_two_clusters_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    with kubeconfig_file(OURS, path):
        with kubeconfig_file(OURS, path):
            assert names(path, "contexts") == ["prod", "kubesched", "kubesched-2"]
        assert names(path, "contexts") == ["prod", "kubesched"]
    assert path.read_text() == THEIRS


@pytest.mark.parametrize("content", ["kind: Pod\n", "- a\n", "a: [\n", "contexts: nonsense\n"])
def test_files_that_are_no_kubeconfig_are_not_changed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with (
        pytest.raises(KubeschedError, match="was left alone"),
        kubeconfig_file(OURS, path),
    ):
        pass
    assert path.read_text() == content


def test_a_kubeconfig_deleted_during_the_block_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with kubeconfig_file(OURS, path):
        path.unlink()
    assert not path.exists()


def test_a_named_context_replaces_what_a_killed_process_left(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    left = kubeconfig_file(OURS, path, "kubesched-blue").__enter__()
    assert left.context_before == "prod"
    with kubeconfig_file(OURS, path, "kubesched-blue") as entry:
        assert names(path, "contexts") == ["prod", "kubesched-blue"]
        assert names(path, "users") == ["me", "kubesched-blue-admin"]
        own = yaml.safe_load(entry.own_text())
        assert own["current-context"] == own["contexts"][0]["name"] == "kubesched-blue"
    assert names(path, "contexts") == ["prod"]


def test_contexts_end_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    with contextlib.ExitStack() as green:
        with kubeconfig_file(OURS, path, "blue"):
            green.enter_context(kubeconfig_file(OURS, path, "green"))
        assert names(path, "contexts") == ["prod", "green"]
        assert yaml.safe_load(path.read_text())["current-context"] == "green"
    assert names(path, "contexts") == ["prod"]
    assert yaml.safe_load(path.read_text())["current-context"] == "", "blue is gone"


def test_a_symbolic_link_of_the_user_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "dotfiles", tmp_path / "config"
    file.write_text(THEIRS)
    link.symlink_to(file)
    with kubeconfig_file(OURS, link):
        assert names(file, "contexts") == ["prod", "kubesched"]
    assert link.is_symlink()
    assert file.read_text() == THEIRS


def test_a_file_that_another_program_is_writing_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubesched.cli.kubeconfig_file._LOCKED_FOR_S", 0.0)
    path, lock = tmp_path / "config", tmp_path / "config.lock"
    path.write_text(THEIRS)
    lock.touch()
    with pytest.raises(KubeschedError, match="another program is writing"):
        kubeconfig_file(OURS, path).__enter__()
    assert path.read_text() == THEIRS
    assert lock.exists(), "it is not ours"
