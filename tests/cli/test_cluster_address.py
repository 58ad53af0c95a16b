"""The cluster that a command for people uses: as kubectl, from ~/.kube/config too."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kubesched.api import Namespace, ObjectMeta
from kubesched.cli.cluster_address import ClusterAddress
from kubesched.cli.main import cli
from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import RealClock
from kubesched.testing import Cluster, make_pod
from kubesched.testing.cluster import cluster_in_thread


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / ".kube").mkdir()
    return tmp_path


@pytest.fixture
def cluster(home: Path) -> Iterator[Cluster]:
    """Yield a cluster that is the current context of ~/.kube/config, with a namespace."""
    with cluster_in_thread(2) as cluster:
        config = yaml.safe_load(cluster.kubeconfig_path.read_text())
        for context in config["contexts"]:
            context["context"]["namespace"] = "shop"
        (home / ".kube/config").write_text(yaml.safe_dump(config))
        yield cluster


def test_commands_read_the_current_context_and_its_namespace(cluster: Cluster) -> None:
    async def fill() -> None:
        await cluster.api.create(Namespace(metadata=ObjectMeta(name="shop")))
        await cluster.api.create(make_pod("web", namespace="shop", requests={"cpu": "4000"}))

    cluster.run(fill())
    done = CliRunner().invoke(cli, ["explain", "pod", "web"])
    assert done.exit_code == 0, done.output
    assert "shop/web" in done.stdout


def test_a_command_that_writes_needs_a_named_cluster(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="which cluster"):
        CliRunner().invoke(cli, ["node", "stop", "node-0"], catch_exceptions=False)


def test_the_variable_takes_precedence(
    cluster: Cluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = home / "other"
    shutil.copy(cluster.kubeconfig_path, other)
    monkeypatch.setenv("KUBECONFIG", str(other))
    assert ClusterAddress().namespace() == "default"
    monkeypatch.delenv("KUBECONFIG")
    assert ClusterAddress().namespace() == "shop"


def test_without_any_file_the_error_names_the_ways(home: Path) -> None:
    with pytest.raises(ConfigError, match="give --name or --kubeconfig, or set KUBECONFIG"):
        ClusterAddress().connection(RealClock(), "test")
