"""Named clusters: they are listed, logged and ended, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubesched.cli.main import cli
from kubesched.cli.named_clusters import (
    ClusterFolder,
    ClusterRecord,
    known_clusters,
    named_cluster,
    state_folder,
)
from kubesched.errors import ConfigError, KubeschedError

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: app}]}
"""
THEIRS = """\
apiVersion: v1
kind: Config
clusters: [{name: prod, cluster: {server: https://prod}}]
users: [{name: me, user: {token: t}}]
contexts: [{name: prod, context: {cluster: prod, user: me}}]
current-context: prod
"""


def folder(root: Path, name: str = "blue") -> ClusterFolder:
    return ClusterFolder(root, name)


def test_the_folder_is_of_the_users_state_directory() -> None:
    assert state_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/kubesched/clusters")
    home = Path.home() / ".local/state/kubesched/clusters"
    assert state_folder({"XDG_STATE_HOME": "relative"}) == state_folder({}) == home


def test_a_cluster_name_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    blue = folder(tmp_path)
    with blue.prepared(), blue.claimed():
        assert blue.state() == "starting"
        with pytest.raises(KubeschedError, match="'blue' runs already; kubesched down blue"):
            blue.claimed().__enter__()
        blue.write_record(ClusterRecord(pid=1, since="", address="https://127.0.0.1:1"))
        assert blue.state() == "running"
    assert blue.state() == "killed", "nothing says that it ended in order"
    blue.write_record(ClusterRecord(pid=1, since="", has_ended=True))
    assert blue.state() == "stopped"
    with blue.claimed():
        assert blue.begin_record(2, "") == 0
        assert blue.state() == "starting", "what an earlier one wrote does not count"


def test_reading_the_state_creates_no_folder(tmp_path: Path) -> None:
    blue = folder(tmp_path)
    assert blue.state() == "killed"
    blue.end()
    assert not blue.exists()


def test_a_restarted_cluster_uses_its_former_port(tmp_path: Path) -> None:
    blue = folder(tmp_path)
    with blue.prepared():
        blue.write_record(ClusterRecord(pid=1, since="", address="https://127.0.0.1:4711"))
    assert blue.begin_record(2, "") == 4711


def test_a_failed_start_removes_the_folder_unless_it_existed(tmp_path: Path) -> None:
    blue = folder(tmp_path)
    with pytest.raises(RuntimeError), blue.prepared(), blue.claimed():
        raise RuntimeError
    assert not blue.exists()
    blue.create()
    with pytest.raises(RuntimeError), blue.prepared(), blue.claimed():
        raise RuntimeError
    assert blue.exists()


def test_files_of_a_cluster_are_readable_by_the_user_only(tmp_path: Path) -> None:
    blue = folder(tmp_path)
    with blue.prepared(), blue.claimed():
        blue.begin_record(1, "")
        assert blue.path.stat().st_mode & 0o777 == 0o700
        assert all(each.stat().st_mode & 0o777 == 0o600 for each in blue.path.iterdir())


def test_names_are_looked_up(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no cluster is named 'blue'"):
        named_cluster(tmp_path / "none", "blue")
    for name in ("blue", "green"):
        folder(tmp_path, name).create()
    assert [each.name for each in known_clusters(tmp_path)] == ["blue", "green"]
    assert named_cluster(tmp_path, "green").name == "green"
    with pytest.raises(ConfigError) as refusal:
        named_cluster(tmp_path, "gren")
    assert refusal.value.__notes__ == ["did you mean 'green'?"]


def test_a_context_left_by_a_killed_cluster_is_removed(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        THEIRS.replace("clusters: [", "clusters: [{name: kubesched-blue, cluster: {}}, ")
        .replace("users: [", "users: [{name: kubesched-blue-admin, user: {}}, ")
        .replace("contexts: [", "contexts: [{name: kubesched-blue, context: {}}, ")
        .replace("current-context: prod", "current-context: kubesched-blue")
    )
    blue = folder(tmp_path / "state")
    blue.create()
    record = ClusterRecord(
        pid=1,
        since="",
        kubeconfig=str(config),
        context="kubesched-blue",
        context_before="prod",
    )
    blue.write_record(record)
    blue.remove()
    assert yaml.safe_load(config.read_text()) == yaml.safe_load(THEIRS)
    assert not blue.exists()


def test_a_shell_completes_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("blue", "black", "green"):
        folder(state_folder(os.environ), name).create()
    done = CliRunner().invoke(
        cli,
        env={
            "_KUBESCHED_COMPLETE": "bash_complete",
            "COMP_WORDS": "kubesched down bl",
            "COMP_CWORD": "2",
        },
        prog_name="kubesched",
    )
    assert done.stdout.split() == ["plain,black", "plain,blue"]


def test_logs_and_down_print_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("blue", "green"):
        made = folder(state_folder(os.environ), name)
        made.create()
        made.log.write_bytes(b"first\nsecond \xff\nthird")

    def told(*arguments: str) -> str:
        done = CliRunner().invoke(cli, arguments, prog_name="kubesched")
        assert done.exit_code == 0, done.output
        return done.stdout

    lines = [json.loads(line) for line in told("logs", "blue", "-o", "json").splitlines()]
    assert [line["line"] for line in lines] == ["first", "second \ufffd", "third"]
    assert {line["cluster"] for line in lines} == {"blue"}
    assert json.loads(told("down", "--all", "-o", "json")) == ["blue", "green"]
    assert json.loads(told("clusters", "-o", "json")) == []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide a home folder with its own kubeconfig; end its clusters afterwards."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").write_text(THEIRS)
    yield tmp_path
    for each in known_clusters(tmp_path / "state/kubesched/clusters"):
        each.end()


def up(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kubesched.cli.main", "up", *arguments]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=120, check=False
    )


def kubesched(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def listed() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(kubesched("clusters", "-o", "json"))
    return rows


def signs_in(link: str) -> int:
    """Open a link as a browser does; return the status of the page."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=context), urllib.request.HTTPCookieProcessor()
    )
    try:
        with opener.open(link, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


def test_the_life_of_a_cluster_in_the_background(home: Path) -> None:
    begun = up("--name", "blue", "--detach", "-f", "-", given=f"{NODE}---\n{POD}")
    assert begun.returncode == 0, begun.stderr
    assert "1 of 1 pods bound, 0 pending" in begun.stdout
    state = home / "state/kubesched/clusters/blue"
    assert begun.stderr.splitlines()[-1] == f"export KUBECONFIG={state}/kubeconfig"
    config = yaml.safe_load((home / ".kube/config").read_text())
    assert [each["name"] for each in config["contexts"]] == ["prod", "kubesched-blue"]
    assert config["current-context"] == "kubesched-blue"
    (row,) = listed()
    assert (row["name"], row["state"], row["nodes"], row["pods"]) == ("blue", "running", 1, 1)
    assert row["address"] == config["clusters"][1]["cluster"]["server"]
    assert kubesched("node", "add", "--name", "blue").split() == ["node-0"]
    link = json.loads(kubesched("dashboard", "--name", "blue", "-o", "json"))["dashboard"]
    assert link.startswith(f"{row['address']}/dashboard/?token=")
    assert signs_in(link) == 200
    assert signs_in(link) == 401, "a link works once"
    assert signs_in(row["dashboard"]) == 200
    assert "Dashboard of blue: https://" in kubesched("clusters")
    assert "1/1 pods placed" in kubesched("logs", "blue")
    again = up("--name", "blue", "--detach", "--quiet")
    assert again.stderr == ("kubesched: cluster 'blue' runs already; kubesched down blue ends it\n")

    os.kill(row["pid"], signal.SIGKILL)
    folder(state.parent).end()
    (killed,) = listed()
    assert (killed["state"], killed["pid"], killed["address"]) == ("killed", None, "")
    resumed = up("--name", "blue", "--detach", "--quiet")
    assert (resumed.returncode, resumed.stdout, resumed.stderr) == (0, "", "")
    (there,) = listed()
    assert (there["state"], there["nodes"], there["pods"]) == ("running", 2, 1)
    assert there["address"] == row["address"], "existing kubeconfigs still work"

    assert kubesched("down", "--all").split() == ["blue"]
    assert yaml.safe_load((home / ".kube/config").read_text()) == yaml.safe_load(THEIRS)
    assert sorted(path.name for path in home.rglob("*")) == [".kube", "config", "state"]


def test_a_failed_background_start_reports_the_reason_and_removes_its_files(
    home: Path,
) -> None:
    wrong = up("--name", "blue", "--detach", "-f", "-", given=POD.replace("name: p", "name: P_"))
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("<stdin>:3: "), wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
    assert listed() == []
    assert not (home / "state/kubesched/clusters/blue").exists()


def test_contradictory_arguments_are_refused(home: Path) -> None:
    for arguments, why in (
        (["down"], "which cluster? name one, or give --all; there are: none"),
        (["down", "--all", "x"], "give names or --all, not both"),
        (["down", "../x"], "is no name"),
        (["up", "--name", "Blue"], "is no name"),
        (["up", "--detach", "--exit"], "--detach and --exit exclude each other"),
        (["node", "stop", "n", "--name", "x", "--context", "y"], "exclude each other"),
    ):
        done = CliRunner().invoke(cli, arguments)
        assert (done.exit_code, why in done.stderr) == (2, True), done.stderr
    for arguments in (["logs", "none"], ["node", "stop", "n", "--name", "none"]):
        with pytest.raises(ConfigError, match="no cluster is named 'none'"):
            CliRunner().invoke(cli, arguments, catch_exceptions=False)
    with pytest.raises(ConfigError, match="which cluster") as nothing:
        CliRunner().invoke(cli, ["node", "stop", "n"], catch_exceptions=False)
    assert nothing.value.__notes__ == ["kubesched up --name blue --detach makes one"]
    with pytest.raises(ConfigError, match="no context named 'nope'"):
        CliRunner().invoke(cli, ["node", "stop", "n", "--context", "nope"], catch_exceptions=False)
    folder(home / "state/kubesched/clusters").create()
    with pytest.raises(KubeschedError, match="'blue' is killed; kubesched up --name blue starts"):
        CliRunner().invoke(cli, ["node", "stop", "n", "--name", "blue"], catch_exceptions=False)
