"""Secrets for tokens of service accounts, with kubectl: filled, valid, deleted with the account."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kubesched.testing import Cluster, cluster_in_thread

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")

pytestmark = pytest.mark.skipif(
    KUBECTL is None, reason="kubectl is not installed (Debian: apt-get install kubernetes-client)"
)

MANIFEST = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
secrets: [{name: robot-token}]
---
apiVersion: v1
kind: Secret
metadata:
  name: robot-token
  annotations: {kubernetes.io/service-account.name: robot}
type: kubernetes.io/service-account-token
"""


def run(cluster: Cluster, home: Path, *arguments: str, given: str = "") -> str:
    assert KUBECTL is not None
    done = subprocess.run(
        [KUBECTL, *arguments],
        input=given,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig_path), "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_secret_for_a_token(tmp_path: Path) -> None:
    with cluster_in_thread(0) as cluster:

        def kubectl(*arguments: str, given: str = "") -> str:
            return run(cluster, tmp_path, *arguments, given=given)

        def value(field: str) -> Any:
            return kubectl("get", "secret", "robot-token", "-o", f"jsonpath={{{field}}}")

        kubectl("apply", "-f", "-", given=MANIFEST)
        kubectl("wait", "secret/robot-token", "--for=jsonpath={.data.token}", "--timeout=20s")
        assert base64.b64decode(value(r".data.namespace")) == b"default"
        authority = kubectl(
            "config", "view", "--raw", "-o",
            "jsonpath={.clusters[0].cluster.certificate-authority-data}",
        )  # fmt: skip
        assert value(r".data.ca\.crt") == authority
        uid = kubectl("get", "sa", "robot", "-o", "jsonpath={.metadata.uid}")
        assert value(r".metadata.annotations.kubernetes\.io/service-account\.uid") == uid
        token = base64.b64decode(value(".data.token")).decode()
        (tmp_path / "ca.crt").write_bytes(base64.b64decode(authority))
        plain = [
            f"--server={cluster.url}",
            f"--certificate-authority={tmp_path / 'ca.crt'}",
            f"--token={token}",
            "--kubeconfig=/dev/null",
        ]
        assert "system:serviceaccount:default:robot" in kubectl(*plain, "auth", "whoami")
        kubectl("delete", "sa", "robot")
        kubectl("wait", "secret/robot-token", "--for=delete", "--timeout=20s")
        assert "NotFound" in value(".data.token")
        assert "Unauthorized" in kubectl(*plain, "get", "pods")


def test_references_end_with_the_secret_and_secrets_without_an_account_are_deleted(
    tmp_path: Path,
) -> None:
    with cluster_in_thread(0) as cluster:

        def kubectl(*arguments: str, given: str = "") -> str:
            return run(cluster, tmp_path, *arguments, given=given)

        kubectl("apply", "-f", "-", given=MANIFEST)
        kubectl("wait", "secret/robot-token", "--for=jsonpath={.data.token}", "--timeout=20s")
        kubectl("delete", "secret", "robot-token")
        for _ in range(50):
            if not (left := kubectl("get", "sa", "robot", "-o", "jsonpath={.secrets}")):
                break
        assert not left
        orphan = MANIFEST.partition("---")[2].replace("robot", "nobody")
        kubectl("apply", "-f", "-", given=orphan)
        kubectl("wait", "secret/nobody-token", "--for=delete", "--timeout=20s")
        assert "NotFound" in kubectl("get", "secret", "nobody-token")
        unnamed = orphan.replace("kubernetes.io/service-account.name", "other")
        assert (
            "metadata.annotations[kubernetes.io/service-account.name]: Required value"
        ) in kubectl("apply", "-f", "-", given=unnamed)
