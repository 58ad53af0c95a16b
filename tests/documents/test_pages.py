"""Every command block and every Python example of the documents runs, and prints what is shown.

A block with a title is a file. Other blocks run in the order of the page, in one folder. What a
page takes for granted (a dump, a capture, a cluster of the reader) is prepared here.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.documents.page_blocks import ROOT, Block, blocks_of
from tests.documents.page_session import PageSession

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *(
        str(path.relative_to(ROOT))
        for folder in ("docs", "docs/howto", "docs/contrib", "examples")
        for path in sorted((ROOT / folder).glob("*/README.md" if folder == "examples" else "*.md"))
    ),
]
BLOCKS = {page: blocks_of(page) for page in PAGES}
COMMANDS = ("console", "bash", "sh")
RUN = (*COMMANDS, "python")
# Fragments that show a style; they are parsed and not run.
ONLY_PARSED = {"docs/style.md"}
# Why a block may be left out. A path is that of the test for it.
REASONS = re.compile(
    r"needs (Docker|the package index|Go|a trace of another project|the suite's program"
    r"|Kubernetes' own programs)"
    r"|runs for minutes|(tests/[\w/]+\.py)(::\w+)? runs it"
)
WORLD = (Path(__file__).parent / "world.yaml").read_text()
NODES = "---\n".join(each for each in WORLD.split("---\n") if "\nkind: Node\n" in each)
SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def a_cluster(session: PageSession, *options: str) -> None:
    """Start a cluster with the objects of the world; it is the current context of kubectl."""
    up = "kubesched up --name reader --detach --quiet -f world.yaml"
    session.write("world.yaml", WORLD)
    session.command(" ".join([up, *options]))


def a_cluster_without_scheduler(session: PageSession) -> None:
    a_cluster(session, "--no-scheduler")


def a_capture(session: PageSession) -> None:
    session.command("kubesched capture -o monday.capture")


def files(**texts: str) -> Callable[[PageSession], None]:
    def write(session: PageSession) -> None:
        for name, text in texts.items():
            session.write(f"{name}.yaml", text)

    return write


def a_recording(session: PageSession) -> None:
    """Record a scheduler that places pods; it has ended."""
    a_cluster_without_scheduler(session)
    session.serve("kubesched run --config scheduler.yaml --record recording")
    session.command("kubectl -n shop wait --for=condition=PodScheduled pod -l app=web")
    session.stop_servers()


def a_full_quota(session: PageSession) -> None:
    """Write a dump of a namespace whose eight pods use all of its quota, and a ninth pod."""
    text = (ROOT / "examples" / "contrib" / "capacity.yaml").read_text()
    objects = [each for each in yaml.safe_load_all(text) if each["kind"] != "Deployment"]
    node = next(each["metadata"]["name"] for each in objects if each["kind"] == "Node")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    for number in range(9):
        placed = {"nodeName": node} if number < 8 else {}
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"notebook-{number}", "namespace": "research"},
                "spec": {"containers": [container], **placed},
            }
        )
    quotas = (ROOT / "deploy" / "crds" / "elasticquotas.yaml").read_text()
    session.write("cluster.yaml", f"{quotas}\n---\n{yaml.safe_dump_all(objects)}")


def the_plugin_of_the_page(session: PageSession) -> None:
    """Write the file that the reader has after the first examples of the page."""
    examples = (each.text for each in BLOCKS[session.page] if each.language == "python")
    session.write("cheap_nodes.py", "\n".join(each for each in examples if "check_" not in each))


def a_pod(session: PageSession) -> None:
    session.command("kubectl create -f pod.yaml")


def a_ledger(session: PageSession) -> None:
    """Write the ledger of a shadow that has ended."""
    session.command("cp .kubeconfig reader.kubeconfig")
    shadow = "kubesched run --shadow --kubeconfig .kubeconfig --secure-port 0"
    session.serve(f"{shadow} --shadow-ledger ledger.json")
    session.command("until [ -s ledger.json ]; do sleep 0.1; done")
    session.stop_servers()


ON_THE_CLUSTER = f"{SCHEDULER}clientConnection: {{kubeconfig: .kubeconfig}}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: web, resources: {requests: {cpu: "1", memory: 1Gi}}}]}
"""
SCENARIO = """\
duration: 1h
cluster:
  nodes: [{name: node, count: 3, cpu: 4, memory: 8Gi, zones: [zone-a, zone-b, zone-c]}]
workloads: [{name: w, arrivals: {every: 10m}, duration: 15m, cpu: "1", memory: 1Gi}]
configurations: [{name: default}, {name: packed, config: {percentageOfNodesToScore: 50}}]
"""
CUSTOM = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""
DEVICE = """
from kubesched.api import *
driver = "gpu.example.com"
class device:
    attributes = {"model": DeviceAttribute(string_value="A100")}
    capacity = {}
    allow_multiple_allocations = False
"""
# Files that the commands of any page may use; a page shows its own files where they matter.
USUAL_FILES = files(
    nodes=NODES, pods=POD.replace("web", "api"), pod=POD, dump=WORLD, scheduler=SCHEDULER
)
PREPARED: dict[str, tuple[Callable[[PageSession], None], ...]] = {
    "README.md": (
        a_cluster_without_scheduler,
        files(scheduler=ON_THE_CLUSTER),
    ),
    "docs/cluster.md": (files(nodes=f"{NODES}---\n{POD}"),),
    "docs/configuration.md": (a_cluster_without_scheduler, files(scheduler=ON_THE_CLUSTER)),
    "docs/dashboard.md": (a_cluster,),
    "docs/explain.md": (
        a_cluster,
        a_capture,
        files(other=SCHEDULER, changes=POD),
    ),
    "docs/operating.md": (a_cluster, a_pod),
    "docs/plan.md": (a_cluster, a_capture),
    "docs/simulate.md": (
        a_cluster,
        files(scenario=SCENARIO, monday=SCENARIO, tuesday=SCENARIO.replace("10m", "9m")),
    ),
    "docs/testing.md": (files(crd=CUSTOM),),
    "docs/contrib/capacity-scheduling.md": (a_full_quota,),
    "docs/howto/pending-pod.md": (a_cluster,),
    "docs/howto/record-and-replay.md": (
        files(scheduler=ON_THE_CLUSTER, new=SCHEDULER),
        a_recording,
    ),
    "docs/howto/run-on-a-cluster.md": (a_cluster,),
    "docs/howto/write-a-plugin.md": (the_plugin_of_the_page,),
    "docs/howto/try-it-safely.md": (a_cluster, a_ledger),
}
# Names that a page takes from the text around its examples.
PRELUDES: dict[str, str] = {
    "docs/cel.md": DEVICE,
    "docs/configuration.md": "from examples.spare_nodes import SpareNodes\n",
    "docs/plugins.md": """
from collections.abc import Iterator, Sequence
import msgspec, numpy as np
from numpy.typing import NDArray
from kubesched.api import Node
from kubesched.framework import *
from kubesched.framework.explaining import *
""",
    "docs/testing.md": """
import pytest
from examples.spare_nodes import SpareNodes
from kubesched.testing.fixtures import cluster_fixture
import subprocess
def my_script(client):
    subprocess.run(["kubectl", "create", "deployment", "web", "--image=web"], check=True)
""",
}


def test_blocks_are_skipped_for_listed_reasons_only() -> None:
    for blocks in BLOCKS.values():
        for block in blocks:
            if block.reason:
                known = REASONS.fullmatch(block.reason)
                assert known, f"{block.place}: {block.reason}"
                assert known[2] is None or (ROOT / known[2]).is_file(), block.place


def test_no_commands_hide_in_indented_text() -> None:
    """An indented block is not found by the tests, and the site shows it without colours."""
    hidden = re.compile(r"^\n {4,}(\$ |kubesched |kubectl |python |make )", re.MULTILINE)
    for page in PAGES:
        text = (ROOT / page).read_text()
        assert not hidden.search(text), f"{page}: use a console block"


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS[page]])
def test_blocks_parse(page: str) -> None:
    for block in BLOCKS[page]:
        if block.language == "yaml":
            list(yaml.safe_load_all(block.text))
        elif block.language == "python":
            text = block.text if not block.text.startswith(" ") else f"class A:\n{block.text}"
            compile(text, block.place, "exec", flags=0x2000)  # top-level await
        elif block.language == "json":
            [json.loads(line) for line in block.text.splitlines()]


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if page not in ONLY_PARSED
        and any(block.language in RUN and not block.reason for block in BLOCKS[page])
    ],
)
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    blocks = [block for block in BLOCKS[page] if not block.reason]
    if shutil.which("kubectl") is None and any("kubectl" in each.text for each in commands(blocks)):
        pytest.skip("kubectl is not installed")
    session = PageSession(tmp_path, page)
    try:
        for prepare in (USUAL_FILES, *PREPARED.get(page, ())):
            prepare(session)
        for block in blocks:
            if block.title:
                session.write(block.title, block.text)
        for block in blocks:
            if block.language in COMMANDS and not block.title:
                session.run(block)
        python = [each for each in blocks if each.language == "python" and not each.title]
        if python:
            session.run_python(python, PRELUDES.get(page, ""))
    finally:
        session.close()


def commands(blocks: list[Block]) -> list[Block]:
    return [each for each in blocks if each.language in COMMANDS]
