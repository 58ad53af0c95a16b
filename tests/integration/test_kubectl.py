"""The real kubectl against the embedded cluster, over TLS and with a token.

`KUBECTL` names the program to use; the default is the one on the path.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubesched.testing import make_node
from kubesched.testing.cluster import Cluster, cluster_in_thread

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")

pytestmark = pytest.mark.skipif(
    KUBECTL is None, reason="kubectl is not installed (Debian: apt-get install kubernetes-client)"
)

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: c
    image: nginx
    resources: {requests: {cpu: 100m}}
    livenessProbe: {httpGet: {path: /, port: 80}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    nodes = [make_node(f"node-{number}") for number in range(2)]
    with cluster_in_thread(nodes) as running:
        yield running


class Kubectl:
    """Runs kubectl in a namespace for one test."""

    def __init__(self, cluster: Cluster, home: Path, namespace: str) -> None:
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig_path),
            "HOME": str(home),
        }
        self.namespace = namespace

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        assert KUBECTL is not None
        return subprocess.Popen(
            [KUBECTL, "--namespace", self.namespace, *arguments],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, given: str | None = None) -> tuple[int, str]:
        process = self.start(*arguments)
        out, error = process.communicate(given, timeout=60)
        return process.returncode, out + error

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        code, output = self.run(*arguments, given=given)
        assert code == 0, output
        return output

    def rows(self, *arguments: str) -> list[list[str]]:
        """A table as lists of cells, the header first."""
        lines = self("get", *arguments).splitlines()
        return [re.split(r"\s{2,}", line.strip()) for line in lines]

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Kubectl:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    made = Kubectl(cluster, tmp_path, name)
    made("create", "namespace", name)
    return made


def test_get_shows_tables(kubectl: Kubectl) -> None:
    assert kubectl.rows("nodes", "--sort-by=metadata.name")[0] == [
        "NAME",
        "STATUS",
        "ROLES",
        "AGE",
        "VERSION",
    ]
    assert kubectl.rows("namespaces", kubectl.namespace)[1][:2] == [kubectl.namespace, "Active"]
    kubectl("apply", "-f", "-", given=POD)
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=20s")
    header, row = kubectl.rows("pods", "-o", "wide")
    assert header[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row[:4] == ["web", "1/1", "Running", "0"]
    assert row[6] in ("node-0", "node-1")


def test_kubectl_apply_changes_and_reports_differences(kubectl: Kubectl) -> None:
    assert "pod/web created" in kubectl("apply", "-f", "-", given=POD)
    assert "pod/web unchanged" in kubectl("apply", "-f", "-", given=POD)
    changed = POD.replace("image: nginx", "image: nginx:2")
    assert "pod/web configured" in kubectl("apply", "-f", "-", given=changed)
    pod = kubectl.json("get", "pod", "web")
    assert pod["spec"]["containers"][0]["image"] == "nginx:2"


def test_server_side_apply_tracks_field_owners(kubectl: Kubectl) -> None:
    for _ in range(2):
        kubectl("apply", "--server-side", "-f", "-", given=POD)
    changed = POD.replace("image: nginx", "image: nginx:2")
    options = ["apply", "--server-side", "--field-manager=other", "-f", "-"]
    code, refusal = kubectl.run(*options, given=changed)
    assert code == 1
    assert 'conflict with "kubectl"' in refusal
    kubectl(*options, "--force-conflicts", given=changed)
    pod = kubectl.json("get", "pod", "web")
    assert pod["spec"]["containers"][0]["image"] == "nginx:2"


def test_a_misspelt_field_is_found(kubectl: Kubectl) -> None:
    code, output = kubectl.run("apply", "-f", "-", given=POD.replace("image:", "imagee:"))
    assert code == 1
    assert 'unknown field "' in output
    assert "imagee" in output


def test_describe_has_the_history_of_a_pod(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=POD)
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=20s")
    steps = kubectl("describe", "pod", "web")
    assert re.search(r"^Node: +node-\d/", steps, re.MULTILINE)
    assert "Successfully assigned" in steps
    assert "Allocatable:" in kubectl("describe", "node", "node-0")


def test_labels_annotations_and_patches(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=POD)
    kubectl("label", "pod", "web", "tier=front")
    kubectl("annotate", "pod", "web", "note=x")
    kubectl("patch", "pod", "web", "-p", '{"metadata":{"labels":{"a":"1"}}}')
    kubectl("patch", "pod", "web", "--type=merge", "-p", '{"metadata":{"labels":{"a":null}}}')
    operation = '[{"op":"add","path":"/metadata/labels/b","value":"2"}]'
    kubectl("patch", "pod", "web", "--type=json", "-p", operation)
    metadata = kubectl.json("get", "pod", "web")["metadata"]
    assert metadata["labels"] == {"app": "web", "tier": "front", "b": "2"}
    assert metadata["annotations"]["note"] == "x"
    assert kubectl("get", "pods", "-l", "tier=front", "-o", "name").strip() == "pod/web"


def test_taints_and_cordons_repel_pods(kubectl: Kubectl) -> None:
    try:
        kubectl("taint", "node", "node-0", "dedicated=x:NoSchedule")
        kubectl("cordon", "node-1")
        assert kubectl.rows("node", "node-1")[1][1] == "Ready,SchedulingDisabled"
        kubectl("run", "stuck", "--image=pause")
        kubectl("wait", "--for=condition=PodScheduled=false", "pod/stuck", "--timeout=20s")
        conditions = kubectl.json("get", "pod", "stuck")["status"]["conditions"]
        assert conditions[0]["message"].startswith("0/2 nodes are available: 1 node(s) had ")
    finally:
        kubectl("taint", "node", "node-0", "dedicated-")
        kubectl("uncordon", "node-1")
    kubectl("wait", "--for=condition=Ready", "pod/stuck", "--timeout=20s")


def test_things_are_created_and_deleted(kubectl: Kubectl) -> None:
    created = {
        "configmap": ["configmap", "c", "--from-literal=a=b"],
        "secret": ["secret", "generic", "c", "--from-literal=a=b"],
        "service": ["service", "clusterip", "c", "--tcp=80:80"],
        "deployment": ["deployment", "c", "--image=nginx"],
        "job": ["job", "c", "--image=pause"],
    }
    for arguments in created.values():
        assert "created" in kubectl("create", *arguments)
    assert kubectl.json("get", "configmap", "c")["data"] == {"a": "b"}
    for kind in created:
        assert "deleted" in kubectl("delete", kind, "c")
        code, output = kubectl.run("get", kind, "c")
        assert (code, "NotFound" in output) == (1, True)


def test_a_watch_shows_what_happens(kubectl: Kubectl) -> None:
    watch = kubectl.start("get", "pods", "--watch", "--output-watch-events")
    try:
        kubectl("run", "seen", "--image=pause")
        assert watch.stdout is not None
        assert watch.stdout.readline().split()[:3] == ["EVENT", "NAME", "READY"]
        first = watch.stdout.readline().split()
        assert first[:2] == ["ADDED", "seen"]
        states = [first[3]]  # the watch may begin when the pod runs already
        while "Running" not in states:
            states.append(watch.stdout.readline().split()[3])
        kubectl("delete", "pod", "seen")
        while (line := watch.stdout.readline()).split()[0] != "DELETED":
            assert line.split()[1] == "seen"
    finally:
        watch.kill()
        watch.communicate()


def test_scale_changes_the_number_of_replicas(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")
    assert "scaled" in kubectl("scale", "deployment", "web", "--replicas=3")
    assert kubectl.json("get", "deployment", "web")["spec"]["replicas"] == 3


def test_a_deployment_rolls_out_and_back(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    (replica_set,) = [
        each for each in kubectl.json("get", "replicasets")["items"] if each["spec"]["replicas"]
    ]
    assert replica_set["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx"
    kubectl("delete", "deployment", "web")
    kubectl("wait", "--for=delete", "pods", "--all", "--timeout=30s")


def test_a_job_completes(kubectl: Kubectl) -> None:
    kubectl("create", "job", "once", "--image=work")
    kubectl("wait", "--for=condition=complete", "job/once", "--timeout=30s")
    assert kubectl.json("get", "job", "once")["status"]["succeeded"] == 1


def test_kubectl_explain_describes_the_fields(kubectl: Kubectl) -> None:
    output = kubectl("explain", "pod.spec.topologySpreadConstraints.maxSkew")
    assert "<integer>" in output
    assert "maxSkew" in output


def test_events_describe_what_the_scheduler_did(kubectl: Kubectl) -> None:
    kubectl("run", "p", "--image=pause")
    kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    selected = "involvedObject.name=p,reason=Scheduled"
    _, row = kubectl.rows("events", "--field-selector", selected)
    assert row[1:4] == ["Normal", "Scheduled", "pod/p"]
    assert row[4].startswith(f"Successfully assigned {kubectl.namespace}/p to node-")


def test_a_drained_node_is_empty(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=POD)
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=20s")
    node = kubectl.json("get", "pod", "web")["spec"]["nodeName"]
    try:
        options = ["--force", "--pod-selector=app=web", "--timeout=30s"]
        assert "drained" in kubectl("drain", node, *options)
        assert kubectl.run("get", "pod", "web")[0] == 1
    finally:
        kubectl("uncordon", node)


def test_permissions_by_user_and_request(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"


def test_a_custom_resource_is_like_any_other(kubectl: Kubectl) -> None:
    definition = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget, shortNames: [gd]}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema:
      {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"""
    try:
        kubectl("apply", "-f", "-", "--validate=false", given=definition)
        kubectl("wait", "--for=condition=Established", "crd/gadgets.example.com")
        gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
        kubectl("create", "-f", "-", given=json.dumps({**gadget, "spec": {"size": 3}}))
        assert kubectl.json("get", "gd", "g")["spec"] == {"size": 3}
        assert kubectl.rows("gadgets")[0] == ["NAME", "AGE"]
    finally:
        kubectl("delete", "crd", "gadgets.example.com", "--ignore-not-found")


def test_the_manifests_in_deploy_are_accepted(kubectl: Kubectl) -> None:
    folder = Path(__file__).resolve().parents[2] / "deploy"
    made = kubectl("kustomize", str(folder)).split("\n---\n")
    # The embedded server has neither roles nor accounts; kustomize has read them all the same.
    others = [each for each in made if "rbac.auth" not in each and "ServiceAccount\n" not in each]
    assert len(made) - len(others) == 6
    applied = kubectl("apply", "-f", "-", "-n", "kube-system", given="\n---\n".join(others))
    # The name of the configuration contains a checksum, so a change replaces the pods.
    configuration, *rest = applied.splitlines()
    assert re.fullmatch(r"configmap/kubesched-config-\w+ created", configuration)
    assert rest == [
        "deployment.apps/kubesched created",
        "poddisruptionbudget.policy/kubesched created",
    ]
    kubectl("delete", "-f", "-", "-n", "kube-system", given="\n---\n".join(others))
