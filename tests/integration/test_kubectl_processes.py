"""The real kubectl reads logs of scripted containers and runs commands in them."""

from __future__ import annotations

import http.server
import re
import shutil
import threading
import urllib.request
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


def test_attach_shows_the_following_lines(kubectl: Kubectl) -> None:
    lines = "".join(f"      line {number}\n" for number in range(600))
    notes = f"kubesched.io/log-interval: 100ms\n    kubesched.io/log: |\n{lines}"
    given = POD.replace("name: web", "name: writer")
    given = given.replace("kubesched.io/log: |\n", notes)
    kubectl("apply", "-f", "-", given=given)
    kubectl("wait", "--for=condition=Ready", "pod/writer", "--timeout=30s")
    attached = kubectl.start("attach", "writer")
    assert attached.stdout is not None
    first, second = (attached.stdout.readline().split() for _ in range(2))
    attached.kill()
    attached.communicate()
    assert first[0] == "line"
    assert int(second[1]) == int(first[1]) + 1


class _Greeting(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from " + self.path.encode())

    def log_message(self, *_args: object) -> None:
        pass


def test_port_forward_leads_to_the_process_of_an_annotation(kubectl: Kubectl) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Greeting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        note = f"kubesched.io/port.80=127.0.0.1:{server.server_port}"
        kubectl("annotate", "pod", "web", note, "--overwrite")
        forwarding = kubectl.start("port-forward", "pod/web", ":80")
        try:
            assert forwarding.stdout is not None
            found = re.search(r"127.0.0.1:(\d+) -> 80", forwarding.stdout.readline())
            assert found is not None
            for number in range(5):
                url = f"http://127.0.0.1:{found[1]}/{number}"
                with urllib.request.urlopen(url, timeout=30) as answer:
                    assert answer.read() == f"hello from /{number}".encode()
        finally:
            forwarding.kill()
            forwarding.communicate()
            server.shutdown()
