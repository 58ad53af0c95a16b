"""Dumps in the forms that kubectl writes, and kinds that a dump does not contain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kubesched.explain import ExplainError, Snapshot
from kubesched.explain.clusters.dump_script import dump_script
from kubesched.explain.clusters.sources import SCHEDULING_KINDS, load_files

NODE: dict[str, Any] = {
    "metadata": {"name": "a"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
POD: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "6"}}}]},
}
LOG = """\
==== START logs for container c of pod shop/web ====
{"level": "info", "text": "a log line that is JSON"}
: and one: that: is no YAML
==== END logs for container c of pod shop/web ====
"""


def typed_list(kind: str, *items: object) -> dict[str, Any]:
    return {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {}, "items": list(items)}


def plain_list(*items: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    objects = [{"apiVersion": version, "kind": kind, **each} for version, kind, each in items]
    return {"apiVersion": "v1", "kind": "List", "items": objects}


def with_spec(**spec: object) -> dict[str, Any]:
    return {**POD, "spec": {"containers": [{"name": "c"}], **spec}}


def written(path: Path, *documents: object, separator: str = "\n---\n", rest: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(separator.join(json.dumps(each, indent=2) for each in documents) + rest)
    return path


@pytest.mark.parametrize("separator", ["\n", "\n---\n", "\n" + LOG])
def test_cluster_info_dump_on_standard_output(tmp_path: Path, separator: str) -> None:
    dump = written(
        tmp_path / "dump",
        typed_list("Node", NODE),
        typed_list("Event"),
        typed_list("Pod", POD),
        separator=separator,
        rest="\n" + LOG,
    )
    assert "6" in Snapshot.from_files(dump).explain("shop/web").summary


def test_cluster_info_dump_in_a_folder(tmp_path: Path) -> None:
    written(tmp_path / "dump" / "nodes.json", typed_list("Node", NODE))
    written(tmp_path / "dump" / "shop" / "pods.json", typed_list("Pod", POD))
    (tmp_path / "dump" / "shop" / "web").mkdir()
    (tmp_path / "dump" / "shop" / "web" / "logs.txt").write_text(LOG)
    assert Snapshot.from_files(tmp_path / "dump").explain("shop/web").verdict == "pending"


def test_a_problem_after_logs_has_the_line_of_the_file(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text("kind: List\nitems: []\n---\n" + LOG + "---\nkind: [\n")
    with pytest.raises(ExplainError, match=r"dump\.yaml:(9|10): "):
        load_files([dump])


def test_a_folder_without_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ExplainError, match="the folder has no file"):
        load_files([tmp_path / "empty"])


CLAIM = {"metadata": {"name": "data", "namespace": "shop"}, "spec": {"storageClassName": "fast"}}
DEVICES = {"metadata": {"name": "gpu", "namespace": "shop"}, "spec": {}}
OF_CLAIM = with_spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
OF_DEVICES = with_spec(resourceClaims=[{"name": "g", "resourceClaimName": "gpu"}])
RESOURCE = "resource.k8s.io/v1"


@pytest.mark.parametrize(
    ("objects", "unknown"),
    {
        "a pod without claims": ([("v1", "Pod", POD)], ()),
        "a claim": ([("v1", "Pod", OF_CLAIM)], ("PersistentVolumeClaim",)),
        "the class of a claim": (
            [("v1", "Pod", OF_CLAIM), ("v1", "PersistentVolumeClaim", CLAIM)],
            ("StorageClass",),
        ),
        "a device claim": ([("v1", "Pod", OF_DEVICES)], ("ResourceClaim",)),
        "the devices": (
            [("v1", "Pod", OF_DEVICES), (RESOURCE, "ResourceClaim", DEVICES)],
            ("DeviceClass", "ResourceSlice"),
        ),
        "a claim of a version that is not read": (
            [("v1", "Pod", OF_DEVICES), ("resource.k8s.io/v1beta1", "ResourceClaim", DEVICES)],
            ("ResourceClaim",),
        ),
        "a claim of a pod that has a node": (
            [("v1", "Pod", {**OF_CLAIM, "spec": {**OF_CLAIM["spec"], "nodeName": "a"}})],
            (),
        ),
    }.values(),
)
def test_referenced_kinds_missing_in_a_dump_are_unknown(
    tmp_path: Path, objects: Sequence[tuple[str, str, dict[str, Any]]], unknown: tuple[str, ...]
) -> None:
    dump = written(tmp_path / "dump.yaml", plain_list(("v1", "Node", NODE), *objects))
    assert load_files([dump]).unknown == unknown
    verdict = Snapshot.from_files(dump).explain("shop/web").verdict
    assert (verdict == "unknown") is bool(unknown)


@pytest.mark.parametrize(
    "rest",
    [
        "\n---\nkind: PersistentVolumeClaimList\napiVersion: v1\nitems: []\n",
        "\n---\nkind: List\nitems: []\n# kubesched-dumped: persistentvolumeclaims\n",
    ],
)
def test_a_list_without_objects_shows_that_a_claim_does_not_exist(
    tmp_path: Path, rest: str
) -> None:
    objects = plain_list(("v1", "Node", NODE), ("v1", "Pod", OF_CLAIM))
    dump = written(tmp_path / "dump.yaml", objects, rest=rest)
    answer = Snapshot.from_files(dump).explain("shop/web")
    assert (answer.verdict, answer.unknown) == ("pending", ())
    assert "data does not exist" in answer.summary


def test_the_dump_command_lists_every_kind_that_is_read() -> None:
    script = dump_script("kubectl --context prod", "/tmp/x.yaml")
    kinds = script.partition(" in ")[2].partition(";")[0].split()
    assert {each.partition(".")[0] for each in kinds} == {each.plural for each in SCHEDULING_KINDS}
    assert script.endswith("done > /tmp/x.yaml")
    assert "kubectl --context prod get " in script


@pytest.mark.parametrize("form", ["JSON", "YAML"])
def test_control_sequences_of_a_dump_are_escaped(form: str, tmp_path: Path) -> None:
    """ESC begins a sequence that a terminal obeys, and so does the character U+009B."""
    title = {"metadata": {"name": "n\x1b]0;title\a\x9b2J"}, "status": NODE["status"]}
    content = json.dumps(plain_list(("v1", "Node", title), ("v1", "Pod", POD)))
    file = tmp_path / "dump"
    file.write_text(content if form == "JSON" else f"# a comment\n---\n{content}")
    told = Snapshot.from_files(file).explain("shop/web").summary
    assert "]0;title" in told
    assert not any(character in told for character in "\x1b\a\x9b")


def test_a_deep_dump_with_escapes_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "dump"
    file.write_text("[" * 700 + '"\\u001b"' + "]" * 700)
    with pytest.raises(ExplainError):
        load_files([file])
