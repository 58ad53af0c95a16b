"""The Python clients of other projects, with a cluster from `kubesched.testing`."""

from __future__ import annotations

import functools
import gc
import socketserver
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from kubesched.testing.cluster import Cluster, cluster_in_thread

with warnings.catch_warnings():
    # What others warn of when they are imported is not ours to mend.
    warnings.simplefilter("ignore")
    kubernetes = pytest.importorskip("kubernetes", reason="the official client is not installed")
    lightkube = pytest.importorskip("lightkube", reason="lightkube is not installed")
    from kubernetes.stream import portforward, stream
    from lightkube.models.core_v1 import Container, PodSpec
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import Node, Pod

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def sockets_that_clients_leave_open() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_in_thread(2) as running:
        yield running


def wait_until_running(core: Any, name: str) -> None:
    events = kubernetes.watch.Watch().stream(
        core.list_namespaced_pod,
        "default",
        field_selector=f"metadata.name={name}",
        timeout_seconds=20,
    )
    phases = []
    for event in events:
        phases.append(event["object"].status.phase)
        if phases[-1] == "Running":
            break
    assert phases[-1] == "Running"


def test_the_official_client_creates_watches_and_deletes(cluster: Cluster) -> None:
    client = kubernetes.config.new_client_from_config(str(cluster.kubeconfig_path))
    core = kubernetes.client.CoreV1Api(client)
    assert [node.metadata.name for node in core.list_node().items] == ["node-0", "node-1"]
    container = kubernetes.client.V1Container(name="c", image="pause")
    pod = kubernetes.client.V1Pod(
        metadata=kubernetes.client.V1ObjectMeta(name="official"),
        spec=kubernetes.client.V1PodSpec(containers=[container]),
    )
    core.create_namespaced_pod("default", pod)
    wait_until_running(core, "official")
    with pytest.raises(kubernetes.client.ApiException) as refusal:
        core.create_namespaced_pod("default", pod)
    assert (refusal.value.status, refusal.value.reason) == (409, "Conflict")
    core.patch_namespaced_pod("official", "default", {"metadata": {"labels": {"a": "b"}}})
    assert core.read_namespaced_pod("official", "default").metadata.labels == {"a": "b"}
    core.delete_namespaced_pod("official", "default", grace_period_seconds=0)
    client.close()


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1024):
            self.request.sendall(data)


# The client drops WebSockets that the server has closed without closing its own end. They may be
# collected while the test runs.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_official_client_talks_to_scripted_containers(cluster: Cluster) -> None:
    client = kubernetes.config.new_client_from_config(str(cluster.kubeconfig_path))
    core = kubernetes.client.CoreV1Api(client)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        notes = {
            "kubesched.io/exec": "[{command: dump, stdoutBase64: H4sIAAAAAAA=}]",
            "kubesched.io/port.80": f"127.0.0.1:{port}",
        }
        spec = {"containers": [{"name": "c", "image": "pause"}]}
        body = {"metadata": {"name": "talks", "annotations": notes}, "spec": spec}
        core.create_namespaced_pod("default", body)
        wait_until_running(core, "talks")
        run = functools.partial(
            stream, core.connect_get_namespaced_pod_exec, "talks", "default", stderr=True, tty=False
        )
        dumped = run(command=["dump"], stdin=False, stdout=True, binary=True)
        assert dumped == bytes.fromhex("1f8b080000000000")
        shell = run(command=["/bin/sh"], stdin=True, stdout=True, _preload_content=False)
        shell.write_stdin("echo one\n")
        assert shell.readline_stdout(timeout=20) == "one"
        shell.write_stdin("echo two >&2\n")
        assert shell.readline_stderr(timeout=20) == "two"
        shell.write_stdin("exit 3\n")
        shell.run_forever(timeout=20)
        assert shell.returncode == 3
        shell.close()
        forward = core.connect_get_namespaced_pod_portforward
        forwarded = portforward(forward, "talks", "default", ports="80,81")
        socket = forwarded.socket(80)
        socket.setblocking(True)
        socket.sendall(b"to the process and back")
        received = b""
        while len(received) < 23:
            received += socket.recv(100)
        assert received == b"to the process and back"
        refused = forwarded.socket(81)
        refused.setblocking(True)
        assert refused.recv(100) == b""
        assert "nothing listens on port 81" in forwarded.error(81)
        forwarded.close()
        server.shutdown()
    client.close()


def test_lightkube_creates_waits_applies_and_deletes(cluster: Cluster) -> None:
    config = lightkube.KubeConfig.from_file(str(cluster.kubeconfig_path))
    client = lightkube.Client(config=config, field_manager="test")
    assert len(list(client.list(Node))) == 2
    pod = Pod(
        metadata=ObjectMeta(name="light", namespace="default"),
        spec=PodSpec(containers=[Container(name="c", image="pause")]),
    )
    client.create(pod)
    ready = client.wait(Pod, "light", for_conditions=["Ready"], namespace="default")
    assert ready.spec is not None
    assert ready.spec.nodeName in ("node-0", "node-1")
    labels = ObjectMeta(name="light", namespace="default", labels={"a": "b"})
    applied = client.apply(Pod(apiVersion="v1", kind="Pod", metadata=labels))
    assert applied.metadata is not None
    assert applied.metadata.labels == {"a": "b"}
    client.delete(Pod, "light", namespace="default")
    with pytest.raises(lightkube.ApiError) as refusal:
        client.get(Pod, "none", namespace="default")
    assert refusal.value.status.code == 404
