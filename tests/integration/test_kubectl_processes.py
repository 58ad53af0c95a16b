"""The real kubectl reads logs of scripted containers and runs commands in them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubesched.testing import make_node
from kubesched.testing.cluster import Cluster, cluster_in_thread
from tests.integration.test_kubectl import Kubectl

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    kubesched.io/log: |
      listening on :80
      ready
    kubesched.io/exec: |
      - command: cat /etc/version
        stdout: "1.2\\n"
      - pattern: "migrate .*"
        stderr: "no database\\n"
        exitCode: 3
spec:
  containers:
  - {name: c, image: nginx}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_in_thread([make_node("node-0")]) as running:
        yield running


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    kubectl = Kubectl(cluster, tmp_path, "default")
    kubectl("apply", "-f", "-", given=POD)
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=30s")
    return kubectl


def test_logs(kubectl: Kubectl) -> None:
    assert kubectl("logs", "web") == "listening on :80\nready\n"
    assert kubectl("logs", "web", "--tail=1") == "ready\n"


def test_exec(kubectl: Kubectl) -> None:
    assert kubectl("exec", "web", "--", "cat", "/etc/version") == "1.2\n"
    code, output = kubectl.run("exec", "web", "--", "migrate", "up")
    assert code == 3
    assert "no database\n" in output
    assert "command terminated with exit code 3" in output
    code, output = kubectl.run("exec", "web", "-c", "none", "--", "ls")
    assert code == 1
    assert "container none is not valid for pod web" in output
