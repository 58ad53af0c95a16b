"""The page in a real browser: arrive, read why, apply, stop a zone, play a drain.

Needs a Chromium (Debian's package) and Playwright; skipped with a reason where there is none.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

BROWSER = os.environ.get("KUBESCHED_BROWSER") or shutil.which("chromium")
sync_api: Any = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
axe: Any = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
)
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium: apt-get install chromium")

CLUSTER = """
apiVersion: v1
kind: List
items:
%s
- apiVersion: v1
  kind: Pod
  metadata: {name: giant}
  spec: {containers: [{name: c, image: giant, resources: {requests: {cpu: "12"}}}]}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
  spec:
    replicas: 6
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: c, image: web, resources: {requests: {cpu: 500m}}}]}
"""
NODE = """- apiVersion: v1
  kind: Node
  metadata:
    name: node-%d
    labels: {topology.kubernetes.io/zone: zone-%s, kubernetes.io/hostname: node-%d}
  status: {allocatable: {cpu: "8", memory: 16Gi, pods: "110"}}
"""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


class Opened(NamedTuple):
    page: Any
    link: str
    problems: list[str]
    elsewhere: list[str]

    @property
    def base(self) -> str:
        return self.link.partition("?")[0]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of this module's own, and the link to its page."""
    folder = tmp_path_factory.mktemp("page")
    manifest = Path(folder) / "cluster.yaml"
    nodes = "".join(NODE % (number, "ab"[number % 2], number) for number in range(4))
    manifest.write_text(CLUSTER % nodes)
    command = [sys.executable, "-m", "kubesched.cli.main", "up", "-f", str(manifest)]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--kubeconfig", str(Path(folder) / "kubeconfig")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            found = re.search(r"Dashboard:\s+(\S+)", line)
            if found:
                yield found.group(1)
                break
        else:
            pytest.fail("no link to the page was printed")
    finally:
        process.send_signal(signal.SIGTERM)
        process.stderr.close()
        process.wait(timeout=20)


@pytest.fixture(scope="module")
def opened(cluster: str) -> Iterator[Opened]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        context = browser.new_context(
            ignore_https_errors=True, viewport={"width": 1280, "height": 900}
        )
        page = context.new_page()
        problems: list[str] = []
        elsewhere: list[str] = []
        own = cluster.partition("/dashboard")[0]
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda r: elsewhere.append(r.url) if not r.url.startswith((own, "data:")) else None,
        )
        page.goto(cluster)
        yield Opened(page, cluster, problems, elsewhere)
        browser.close()


def test_the_cluster_is_seen_at_a_glance(opened: Opened) -> None:
    page = opened.page
    page.get_by_test_id("counts").get_by_text("4", exact=True).first.wait_for()
    page.get_by_role("img", name="Map of 4 nodes").wait_for()
    assert "token" not in page.url


def test_a_node_opens_to_its_pods(opened: Opened) -> None:
    page = opened.page
    page.goto(opened.base + "#/cluster?node=node-1")
    panel = page.get_by_role("complementary", name="Node node-1")
    panel.get_by_text("cpu", exact=False).first.wait_for()


def test_a_pending_pod_says_why_and_a_suggestion_is_applied(opened: Opened) -> None:
    page = opened.page
    page.goto(opened.base + "#/queue")
    page.get_by_role("link", name="default/giant").first.click()
    summary = page.get_by_test_id("summary")
    summary.wait_for()
    assert "Insufficient cpu" in summary.inner_text()
    page.get_by_role("button", name="Apply").first.click()
    page.get_by_text("It runs on", exact=False).wait_for()


def test_pods_arrive_while_one_looks(opened: Opened) -> None:
    page = opened.page
    page.goto(opened.base + "#/try")
    page.get_by_role("button", name="A pod", exact=True).click()
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_text("Made Pod hello").wait_for()
    page.goto(opened.base + "#/live")
    page.get_by_role("link", name="default/hello").first.wait_for()


def test_a_drain_is_played_in_virtual_time(opened: Opened) -> None:
    page = opened.page
    page.goto(opened.base + "#/whatif")
    page.get_by_label("Drain nodes").fill("node-2")
    page.get_by_role("button", name="Play").click()
    page.get_by_test_id("answer").wait_for()
    page.get_by_text("Before and after").first.wait_for()


def test_a_zone_is_stopped(opened: Opened) -> None:
    page = opened.page
    page.goto(opened.base + "#/try")
    page.get_by_role("button", name="Stop zone zone-b").click()
    page.get_by_text("Zone zone-b: 2 nodes, stop.").wait_for()


def test_texts_with_markup_are_shown_as_text(opened: Opened) -> None:
    page = opened.page
    page.goto(opened.base + "#/pod/default/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    page.get_by_text("no pod default/<img src=x onerror=alert(1)>").wait_for()
    assert page.locator("img").count() == 0


def test_it_is_readable_on_a_phone(opened: Opened) -> None:
    page = opened.page
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(opened.base + "#/cluster")
    page.get_by_role("img", name="Map of").wait_for()
    wide = page.evaluate("document.documentElement.scrollWidth > window.innerWidth + 1")
    page.set_viewport_size({"width": 1280, "height": 900})
    assert not wide


@pytest.mark.parametrize("view", ["cluster", "live", "queue", "whatif", "try", "pod/default/giant"])
def test_axe_finds_nothing_serious(opened: Opened, view: str) -> None:
    page = opened.page
    page.goto(f"{opened.base}#/{view}")
    page.get_by_test_id("counts").wait_for()
    found = axe.Axe().run(page).response["violations"]
    serious = [each["id"] for each in found if each["impact"] in ("serious", "critical")]
    assert serious == []


def test_no_console_error_and_no_request_elsewhere(opened: Opened) -> None:
    # The one error is the browser's note of the 404 for the pod with markup in its name.
    assert [each for each in opened.problems if "404" not in each] == []
    assert opened.elsewhere == []
