from __future__ import annotations

import asyncio
import io
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kubesched.api import Node, Pod, PriorityClass
from kubesched.api.custom_kinds import custom_kind
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.cluster.manifests import apply_manifests, load_manifests
from kubesched.errors import ManifestError
from kubesched.foundation.util.clock import RealClock, current_clock
from kubesched.foundation.util.virtual_loop import run

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: c
    image: pause
"""
NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: n1
status:
  capacity: {cpu: 4, memory: 8Gi}
"""


def write(folder: Path, text: str, name: str = "a.yaml") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def problems(folder: Path, text: str) -> list[str]:
    file = write(folder, text)
    with pytest.raises(ManifestError) as refused:
        load_manifests([file])
    return str(refused.value).replace(file, "FILE").splitlines()


def test_any_mix_of_kinds_is_read_in_an_order_that_can_be_created(tmp_path: Path) -> None:
    classes = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
"""
    text = f"{POD}  priorityClassName: high\n---\n# a comment\n---\n{NODE}---\n{classes}"
    manifests = load_manifests([write(tmp_path, text)])
    assert [type(each.object) for each in manifests] == [PriorityClass, Node, Pod]
    assert [each.line for each in manifests] == [20, 13, 1]


def test_objects_go_into_the_default_namespace(tmp_path: Path) -> None:
    (manifest,) = load_manifests([write(tmp_path, POD)])
    assert isinstance(manifest.object, Pod)
    assert manifest.object.metadata.namespace == "default"


def test_lists_are_unpacked(tmp_path: Path) -> None:
    text = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: a}
- kind: PodList
  apiVersion: v1
  items:
  - metadata: {name: b}
    spec: {containers: [{name: c, image: x}]}
"""
    manifests = load_manifests([write(tmp_path, text)])
    assert [(type(each.object), each.line) for each in manifests] == [(Node, 4), (Pod, 10)]


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    write(tmp_path, NODE, "b.yaml")
    write(tmp_path, NODE.replace("n1", "n0"), "a.json")
    write(tmp_path, "not for us", "c.txt")
    names = [each.document["metadata"]["name"] for each in load_manifests([tmp_path])]
    assert names == ["n0", "n1"]


def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(NODE))
    (manifest,) = load_manifests(["-"])
    assert manifest.location == "<stdin>:1"


def test_objects_exported_from_a_cluster_can_be_read(tmp_path: Path) -> None:
    text = POD.replace(
        "  name: web\n",
        "  name: web\n  uid: 1-2\n  resourceVersion: '700'\n"
        "  creationTimestamp: 2024-01-01T00:00:00Z\n  managedFields: [{manager: x}]\n"
        "  annotations: {when: 2024-01-01T00:00:00Z, at: '12:30'}\n",
    )
    text += "  priority: 0\n  preemptionPolicy: PreemptLowerPriority\n  nodeName: n1\n"
    text += "status: {phase: Running}\n"
    (manifest,) = load_manifests([write(tmp_path, text)])
    assert manifest.document["metadata"]["annotations"]["when"] == "2024-01-01T00:00:00Z"
    assert manifest.is_dumped

    async def main() -> None:
        api = LocalApi(Store(random.Random(0)), current_clock())
        await apply_manifests(api, [manifest])
        pod = await api.get(Pod, "web", "default")
        assert (pod.status.phase, pod.spec.node_name) == ("Running", "n1")
        assert (pod.metadata.uid, pod.metadata.creation_timestamp) == (
            "1-2",
            "2024-01-01T00:00:00Z",
        )
        assert pod.metadata.resource_version != "700"
        await apply_manifests(api, [manifest])  # existing objects are not changed
        assert await api.get(Pod, "web", "default") == pod

    run(main())


def test_anchors_and_merges_are_resolved(tmp_path: Path) -> None:
    text = """\
apiVersion: v1
kind: Node
metadata:
  name: 'n'
  labels: &base {a: "1", b: "2"}
  annotations:
    <<: *base
    b: "3"
"""
    (manifest,) = load_manifests([write(tmp_path, text)])
    assert manifest.document["metadata"]["annotations"] == {"a": "1", "b": "3"}


class Case(NamedTuple):
    text: str
    want: list[str]


CASES = {
    "text that is no YAML": Case("a: [1\nb: 2\n", ["FILE:2: not YAML: "]),
    "a key twice": Case(
        POD + "  hostNetwork: true\n  hostNetwork: false\n",
        ["FILE:10: key 'hostNetwork' is already set on line 9"],
    ),
    "a value that contains itself": Case(
        "a: &x\n  b: *x\n", ["FILE:2: not YAML: anchor 'x' value contains itself"]
    ),
    "a list instead of an object": Case("- 1\n", ["FILE:1: not an object but a list"]),
    "text instead of an object": Case("hello\n", ["FILE:1: not an object but a text"]),
    "no kind and no version": Case(
        "metadata: {name: x}\n", ["FILE:1: apiVersion is missing", "FILE:1: kind is missing"]
    ),
    "an unknown kind": Case(
        "apiVersion: v1\nkind: Gadget\nmetadata: {name: x}\n",
        ['FILE:2: no kind "Gadget" is known in version "v1"'],
    ),
    "a kind of another version": Case(
        "apiVersion: v1\nkind: Deployment\nmetadata: {name: x}\n",
        ['FILE:2: no kind "Deployment" is known in version "v1"; did you mean "apps/v1"?'],
    ),
    "no name": Case(
        POD.replace("  name: web", "  labels: {a: b}"), ["FILE:3: metadata.name is missing"]
    ),
    "no metadata": Case("apiVersion: v1\nkind: Node\n", ["FILE:1: metadata.name is missing"]),
    "a field of the wrong type": Case(
        POD + "  nodeSelector:\n    a: b\n    zone: 1\n",
        ["FILE:11: spec.nodeSelector[zone]: expected str, got int"],
    ),
    "a label that is no text": Case(
        POD.replace("  name: web\n", "  name: web\n  labels:\n    a: b\n    on: true\n"),
        ["FILE:7: metadata.labels[true]: expected str, got bool"],
    ),
    "a number that is text": Case(
        POD + "  terminationGracePeriodSeconds: soon\n",
        ["FILE:9: spec.terminationGracePeriodSeconds: expected int | null, got str"],
    ),
    "a bad quantity": Case(
        POD + "    resources:\n      requests:\n        cpu: 1\n        memory: 1Gib\n",
        [
            "FILE:12: spec.containers[0].resources.requests[memory]: '1Gib' is no quantity: "
            "quantities must match the regular expression"
        ],
    ),
    "what the store refuses": Case(
        POD.replace("name: c", "name: C").replace("image: pause", "image: ''"),
        [
            'FILE:7: spec.containers[0].name: Invalid value: "C": a lowercase RFC 1123 label',
            "FILE:8: spec.containers[0].image: Required value",
        ],
    ),
    "a bad taint": Case(
        NODE + "spec:\n  taints:\n  - key: a\n    effect: Never\n",
        ['FILE:10: spec.taints[0].effect: Unsupported value: "Never": supported values: '],
    ),
    "an unknown namespace": Case(
        POD.replace("  name: web\n", "  name: web\n  namespace: team\n"),
        ['FILE:5: namespaces "team" not found'],
    ),
    "an unknown priority class": Case(
        POD + "  priorityClassName: high\n",
        ['FILE:9: pods "web" is forbidden: no PriorityClass with name high was found'],
    ),
    "an object twice": Case(f"{NODE}---\n{NODE}", ['FILE:11: nodes "n1" already exists']),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_problems_are_reported_with_their_line(tmp_path: Path, case: Case) -> None:
    found = problems(tmp_path, case.text)
    assert len(found) == len(case.want), found
    for line, want in zip(found, case.want, strict=True):
        assert line.startswith(want)


def test_all_problems_are_reported_at_once_in_order(tmp_path: Path) -> None:
    first = write(tmp_path, POD.replace("image: pause", "image: 5"), "first.yaml")
    second = write(tmp_path, f"{POD}---\n{NODE.replace('n1', 'N1')}---\n- 1\n", "second.yaml")
    with pytest.raises(ManifestError) as refused:
        load_manifests([first, second, str(tmp_path / "none.yaml")])
    lines = str(refused.value).splitlines()
    assert [line.removeprefix(f"{tmp_path}/").split(": ")[0] for line in lines] == [
        "first.yaml:8",
        "second.yaml:13",
        "second.yaml:17",
        "none.yaml:1",
    ]


def test_a_namespace_defined_in_the_same_files_may_be_used(tmp_path: Path) -> None:
    text = POD.replace("  name: web\n", "  name: web\n  namespace: team\n")
    text += "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
    assert len(load_manifests([write(tmp_path, text)])) == 2


def test_no_files_are_no_objects() -> None:
    assert load_manifests([]) == []


DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: SCOPE
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, maximum: 9}}}
          status: {type: object, properties: {seen: {type: integer}}}
status: {acceptedNames: {kind: Widget, plural: widgets}, conditions: [], storedVersions: []}
"""
WIDGET = """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
spec: {size: SIZE}
status: {seen: 1}
"""


@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
def test_custom_objects_have_their_definitions_in_any_order(scope: str, tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(f"{WIDGET}---\n{DEFINITION}".replace("SIZE", "3").replace("SCOPE", scope))
    api = LocalApi(Store(), RealClock())
    asyncio.run(apply_manifests(api, load_manifests([path])))
    widgets = custom_kind("widgets.v1.example.com", "Widget")
    assert widgets is not None
    found: Any = api.document(widgets.type, "w", "default" if scope == "Namespaced" else None)
    assert (found["spec"], found["status"]) == ({"size": 3}, {"seen": 1})


def test_violations_of_a_definition_are_reported_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    text = f"{DEFINITION}---\n{WIDGET}".replace("SIZE", "30").replace("SCOPE", "Namespaced")
    path.write_text(text)
    line = text.splitlines().index("spec: {size: 30}") + 1
    with pytest.raises(ManifestError) as refusal:
        load_manifests([path])
    assert str(refusal.value).startswith(f"{path}:{line}: spec.size: Invalid value: 30: ")


UNKNOWN = {
    "kind: Deploymnet\napiVersion: apps/v1": 'did you mean "Deployment"?',
    "kind: Deployment\napiVersion: extensions/v1beta1": 'did you mean "apps/v1"?',
    "kind: Widget\napiVersion: example.com/v1": "its CustomResourceDefinition missing?",
}


@pytest.mark.parametrize(("head", "hint"), UNKNOWN.items())
def test_an_unknown_kind_has_a_hint(head: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(f"{head}\nmetadata: {{name: x}}\n")
    with pytest.raises(ManifestError) as refusal:
        load_manifests([path])
    assert str(refusal.value).endswith(hint), refusal.value
