"""Clients in tests reach the cluster of the test, and never the user's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "prod", "cluster": {"server": "https://prod.example.com:6443"}}],
    "users": [{"name": "me", "user": {"token": "t"}}],
    "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}],
    "current-context": "prod",
}
READS_AT_IMPORT = """
import kubernetes
try:
    kubernetes.config.load_kube_config()
except kubernetes.config.ConfigException:
    pass

def test_it(kubesched_cluster) -> None:
    import os
    assert os.environ["KUBECONFIG"] == str(kubesched_cluster.kubeconfig_path)
"""
LOADS_IN_THE_TEST = """
import kubernetes
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_it(kubesched_cluster, number) -> None:
    kubernetes.config.load_kube_config()
    assert len(kubernetes.client.CoreV1Api().list_node().items) == 3

def test_the_guard_restores_clients_and_environment() -> None:
    import os
    assert os.environ["KUBECONFIG"].endswith("production")
    assert "127.0.0.1" not in str(kubernetes.client.Configuration.get_default_copy().host)
"""


def run_pytest(folder: Path, module: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a module in a separate pytest, as the user of a production cluster."""
    pytest.importorskip("kubernetes", reason="the official client is not installed")
    (folder / "production").write_text(yaml.safe_dump(PRODUCTION))
    (folder / "test_module.py").write_text(module)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "kubesched.testing.fixtures", *options]
    return subprocess.run(
        [*command, "--rootdir", str(folder), "test_module.py"],
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(folder / "production"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_client_that_was_configured_at_import_fails_the_test(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, READS_AT_IMPORT)
    assert done.returncode == 1, done.stdout
    assert "is configured for https://prod.example.com:6443 and not for the cluster" in done.stdout
    assert "kubesched_hide_kubeconfig = true" in done.stdout


def test_the_option_hides_the_kubeconfig_from_imports(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, READS_AT_IMPORT, "-o", "kubesched_hide_kubeconfig=true")
    assert done.returncode == 0, done.stdout


def test_a_client_in_a_test_uses_the_cluster_of_the_test(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, LOADS_IN_THE_TEST)
    assert done.returncode == 0, done.stdout


def test_the_first_example_of_the_documentation_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs/testing.md").read_text()
    done = run_pytest(tmp_path, text.split("```python\n")[1].split("```")[0])
    assert done.returncode == 0, done.stdout
