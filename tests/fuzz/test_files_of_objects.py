"""Arbitrary files of objects: commands print a result or an error of one line, no traceback."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.cli.main import main
from tests.fuzz.effort import effort
from tests.fuzz.service import KINDS
from tests.hostile_values import documents
from tests.scheduler.hostile_object_harness import merged

Json = dict[str, Any]

NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
OTHERS = (
    *("Pod", "Node", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode"),
    *("ResourceClaim", "ResourceSlice", "DeviceClass", "PodDisruptionBudget", "Deployment"),
    *("Namespace", "PriorityClass", "Service"),
)
COMMANDS = (
    ("explain", "pod", "p", "-f"),
    ("explain", "pod", "p", "-o", "json", "-f"),
    ("fit", "-f"),
    ("whatif", "--add", "1", "-f"),
    ("whatif", "--drain", "n", "-f"),
)


def ask(command: tuple[str, ...], objects: list[Json], folder: Path) -> None:
    path = folder / "objects.yaml"
    path.write_text("\n---\n".join(map(json.dumps, objects)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["kubesched", *command, str(path)])
        with contextlib.suppress(SystemExit):
            main()


@st.composite
def objects(draw: Any) -> list[Json]:
    found = [NODE, merged(POD, draw(documents(KINDS["Pod"].type)))]
    for kind in draw(st.lists(st.sampled_from(OTHERS), max_size=3)):
        resource = KINDS[kind]
        version = f"{resource.group}/{resource.version}" if resource.group else resource.version
        document = draw(documents(resource.type))
        metadata = {"name": "x", **(document.get("metadata") or {})}
        found.append({**document, "apiVersion": version, "kind": kind, "metadata": metadata})
    return found


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@effort(2)
@given(drawn=objects())
def test_files(
    command: tuple[str, ...], drawn: list[Json], tmp_path_factory: pytest.TempPathFactory
) -> None:
    ask(command, drawn, tmp_path_factory.mktemp("objects"))


UNCHECKED: dict[str, Json] = {
    "an owner without a uid": {"metadata": {"ownerReferences": [{}]}},
    "no status": {"spec": {"nodeName": "n"}, "status": {}},
    "a condition without a type": {"status": {"conditions": [{"status": "True"}]}},
    "a time that is none": {"status": {"startTime": "a"}},
}


@pytest.mark.parametrize("change", UNCHECKED.values(), ids=UNCHECKED)
def test_objects_that_no_server_would_store_are_handled(change: Json, tmp_path: Path) -> None:
    ask(("whatif", "--add", "1", "-f"), [NODE, merged(POD, change)], tmp_path)
