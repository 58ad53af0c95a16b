"""The page in a real browser: sign-in, causes, changes, outages, drains, the timeline.

Needs a Chromium (Debian's package) and Playwright; skipped with a reason where there is none.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from kubesched.explain.clusters.capture import Capture, write_capture
from kubesched.testing import make_node, make_pod
from tests.cli.test_plan_command import written
from tests.plan.clusters import node, pod_of, replica_set
from tests.sim.scenarios import PACKED, document

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
SCREEN = {"width": 1280, "height": 900}
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
    problems: list[str]
    elsewhere: list[str]

    def go(self, view: str) -> Any:
        folder = self.page.url.partition("#")[0]
        self.page.goto(f"{folder}#/{view}")
        return self.page

    def ask(self, question: str) -> Any:
        """Return the response that the page would receive."""
        return self.page.evaluate("path => fetch(path).then(r => r.json())", f"api/{question}")


@contextlib.contextmanager
def process(*command: str) -> Iterator[str]:
    """A kubesched of this test's own, and the link to its page."""
    with subprocess.Popen(
        [sys.executable, "-m", "kubesched.cli.main", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        said = []
        try:
            for line in running.stdout:
                said.append(line)
                if found := re.search(r"Dashboard:\s+(\S+)", line):
                    # The rest of the output must not fill the pipe.
                    threading.Thread(target=running.stdout.read, daemon=True).start()
                    yield found.group(1)
                    break
            else:
                pytest.fail(f"no link to the page was printed: {said}")
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(timeout=20)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page")
    manifest = folder / "cluster.yaml"
    nodes = "".join(NODE % (number, "ab"[number % 2], number) for number in range(4))
    manifest.write_text(CLUSTER % nodes)
    place = ("--listen", "127.0.0.1:0", "--kubeconfig", str(folder / "kubeconfig"))
    with process("up", "-f", str(manifest), *place) as link:
        yield link


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield launched
        launched.close()


def visit(browser: Any, link: str) -> Opened:
    context = browser.new_context(ignore_https_errors=True, viewport=SCREEN)
    page = context.new_page()
    page.set_default_timeout(15_000)
    opened = Opened(page, [], [])
    own = link.partition("/dashboard")[0]

    def console(message: Any) -> None:
        if message.type in ("error", "warning"):
            opened.problems.append(message.text)

    def request(sent: Any) -> None:
        if not sent.url.startswith((own, "data:")):
            opened.elsewhere.append(sent.url)

    page.on("console", console)
    page.on("pageerror", lambda error: opened.problems.append(str(error)))
    page.on("request", request)
    page.goto(link)
    return opened


@pytest.fixture(scope="module")
def opened(cluster: str, browser: Any) -> Opened:
    return visit(browser, cluster)


def test_the_overview_shows_the_state_of_the_cluster(opened: Opened) -> None:
    page = opened.page
    page.get_by_role("img", name="Map of 4 nodes").wait_for()
    assert page.get_by_test_id("counts").inner_text().split()[:2] == ["4", "nodes"]
    assert "token" not in page.url


def test_a_node_opens_to_its_pods_by_mouse_and_by_keyboard(opened: Opened) -> None:
    page = opened.go("cluster")
    board = page.get_by_role("img", name="Map of 4 nodes")
    board.click(position={"x": 20, "y": 45})
    panel = page.get_by_role("complementary", name="Node node-0")
    panel.get_by_role("link", name=re.compile("^web-")).first.wait_for()
    assert "of 8" in panel.inner_text()
    page.keyboard.press("Escape")
    panel.wait_for(state="detached")
    board.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_role("complementary", name="Node node-2").wait_for()
    assert "node=node-2" in page.url


def test_the_search_is_usable_without_a_mouse(opened: Opened) -> None:
    page = opened.go("live")
    page.locator("body").press("/")
    page.keyboard.type("node-")
    page.get_by_role("option", name="node-1").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("complementary", name="Node node-1").wait_for()


def test_the_page_explains_a_pending_pod_and_applies_a_suggestion(opened: Opened) -> None:
    page = opened.go("queue")
    page.get_by_text("Insufficient cpu", exact=True).wait_for()
    page.get_by_role("link", name="default/giant").first.click()
    summary = page.get_by_test_id("summary")
    summary.wait_for()
    assert "Insufficient cpu" in summary.inner_text()
    history = page.locator(".history")
    for step in ("created", "joined the queue", "tried, no node fits", "waits for a change"):
        history.get_by_text(step).first.wait_for()
    page.get_by_role("link", name="Show on the map where it fits").click()
    page.get_by_text("0 nodes would take").wait_for()
    page.go_back()
    page.get_by_role("button", name="Apply").first.click()
    page.get_by_text("It runs on", exact=False).wait_for()


def test_the_open_page_shows_new_pods(opened: Opened) -> None:
    page = opened.go("try")
    page.get_by_role("button", name="A pod", exact=True).click()
    page.get_by_role("button", name="Create", exact=True).click()
    made = page.get_by_text("Created Pod hello-")
    made.wait_for()
    name = made.inner_text().removeprefix("Created Pod ").rstrip(".")
    opened.go("live")
    page.get_by_role("link", name=f"default/{name}").first.wait_for()


def test_decisions_are_paused_stepped_through_and_inspected(opened: Opened) -> None:
    page = opened.go("live")
    page.get_by_role("button", name="Pause").click()
    closer = page.get_by_test_id("decision")
    closer.wait_for()
    shown = closer.inner_text()
    page.get_by_role("button", name="Step back").click()
    page.wait_for_function(
        "text => document.querySelector('[data-testid=decision]').innerText !== text", arg=shown
    )
    page.get_by_role("button", name="Step forward").click()
    page.wait_for_function(
        "text => document.querySelector('[data-testid=decision]').innerText === text", arg=shown
    )
    link = page.url
    opened.go("cluster")
    page.goto(link)
    closer.get_by_text("Best nodes at that moment").wait_for()
    page.get_by_role("button", name="Go on").click()
    closer.wait_for(state="detached")


def test_a_drain_is_played_in_virtual_time_and_the_link_shows_it_again(opened: Opened) -> None:
    page = opened.go("whatif")
    page.get_by_label("Drain nodes").fill("node-2")
    page.get_by_role("button", name="Play").click()
    answer = page.get_by_test_id("answer")
    answer.get_by_text("Before and after").first.wait_for()
    summary = answer.locator(".verdict").inner_text()
    link = page.url
    opened.go("cluster")
    page.goto(link)
    answer.wait_for()
    assert answer.locator(".verdict").inner_text() == summary


def test_a_new_configuration_applies_to_the_next_pods(opened: Opened) -> None:
    page = opened.go("try")
    page.get_by_label("Configuration").fill("apiVersion: v1")
    page.get_by_role("button", name="Configure", exact=True).click()
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "\n" not in alert.inner_text()
    page.get_by_role("button", name="Pack nodes full").click()
    page.get_by_role("button", name="Configure", exact=True).click()
    page.get_by_text("The scheduler goes on with this configuration").wait_for()
    page.get_by_role("button", name="A deployment").click()
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_text("Created Deployment hello.").wait_for()
    page.wait_for_function(
        "() => fetch('api/selected?text=app=hello').then(r => r.json())"
        ".then(found => Object.values(found).reduce((a, b) => a + b, 0) === 6)"
    )
    assert list(opened.ask("selected?text=app=hello").values()) == [6]


def test_a_workload_is_scaled(opened: Opened) -> None:
    page = opened.go("try")
    page.get_by_label("Workload").select_option(label="default/web (Deployment, 6)")
    page.get_by_label("Replicas").fill("8")
    page.get_by_role("button", name="Scale", exact=True).click()
    page.get_by_text("web has 8 replicas now.").wait_for()


def test_a_stopped_zone_is_shown_as_down(opened: Opened) -> None:
    page = opened.go("try")
    page.get_by_role("button", name="Stop zone zone-b").click()
    page.get_by_text("Zone zone-b stopped: 2 nodes.").wait_for()
    opened.go("cluster")
    page.get_by_test_id("counts").get_by_text(re.compile("stopped|not ready")).wait_for()


VIEWS = ["cluster?node=node-1", "live", "queue", "whatif", "try", "pod/default/giant"]


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_serious_accessibility_problems(opened: Opened, view: str) -> None:
    page = opened.go(view)
    page.locator("main h1").first.wait_for(state="attached")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert serious_problems(page) == []


def serious_problems(page: Any) -> list[str]:
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {each['nodes'][0]['html']}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def test_every_view_is_readable_on_a_phone(opened: Opened) -> None:
    page = opened.page
    page.set_viewport_size({"width": 400, "height": 800})
    wide = []
    for view in VIEWS:
        opened.go(view).locator("main h1").first.wait_for(state="attached")
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth + 1"):
            wide.append(view)
    page.set_viewport_size(SCREEN)
    assert wide == []


def test_no_console_error_and_no_request_elsewhere(opened: Opened) -> None:
    # The one error is the browser's message about the 400 for the invalid configuration.
    assert [each for each in opened.problems if "status of 400" not in each] == []
    assert opened.elsewhere == []


MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def captured(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The page of two captures: in the first a pod with markup in its name waits."""
    folder = tmp_path_factory.mktemp("captures")
    node, pod = make_node("a", cpu="2"), make_pod(MARKUP, requests={"cpu": "4"})
    later = replace(pod, spec=replace(pod.spec, node_name="b"))
    first = Capture((node, pod), "2026-05-04T08:00:00Z")
    second = Capture((node, make_node("b", cpu="8"), later), "2026-05-04T09:00:00Z")
    paths = []
    for name, capture in (("first", first), ("second", second)):
        write_capture(capture, folder / name)
        paths += ["--capture", str(folder / name)]
    with process("dashboard", *paths) as link:
        yield visit(browser, link)


def test_a_slider_selects_among_captures(captured: Opened) -> None:
    page = captured.page
    page.get_by_role("img", name="Map of 2 nodes").wait_for()
    assert page.get_by_test_id("moment").inner_text() == "2026-05-04 09:00:00"
    slider = page.get_by_label("Moment")
    slider.focus()
    slider.press("Home")
    page.get_by_role("img", name="Map of 1 node").wait_for()
    assert page.get_by_test_id("moment").inner_text() == "2026-05-04 08:00:00"
    link = page.url
    page.get_by_role("button", name="Play").click()
    page.get_by_role("img", name="Map of 2 nodes").wait_for()
    page.goto("about:blank")
    page.goto(link)
    page.get_by_role("img", name="Map of 1 node").wait_for()
    assert serious_problems(page) == []


def test_names_with_markup_are_shown_as_text(captured: Opened) -> None:
    page = captured.page
    # Whichever test was here before: the pod waits at the first moment only.
    page.get_by_role("link", name="Cluster", exact=True).click()
    page.get_by_label("Moment").press("Home")
    page.get_by_role("img", name="Map of 1 node").wait_for()
    page.get_by_role("link", name=re.compile("^Queue")).click()
    page.get_by_role("link", name=f"default/{MARKUP}").first.click()
    page.get_by_test_id("summary").wait_for()
    assert page.locator("h1").inner_text() == f"default/{MARKUP}"
    page.get_by_label("Find a node or pod").fill("img")
    page.get_by_role("option").first.wait_for()
    assert page.locator("img").count() == 0
    assert captured.problems == []
    assert captured.elsewhere == []


# Whether a point of the map is drawn on, from the left upper corner of the canvas.
IS_DRAWN = """(board, [x, y]) => board.getContext('2d')
  .getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data[3] > 0"""


def test_squares_have_the_size_of_their_nodes_and_do_not_move(browser: Any, tmp_path: Path) -> None:
    nodes = [make_node(f"n{number:02}", cpu="64" if number else "16") for number in range(12)]
    write_capture(Capture(tuple(nodes), "2026-05-04T08:00:00Z"), tmp_path / "sizes")
    with process("dashboard", "--capture", str(tmp_path / "sizes")) as link:
        shown = visit(browser, link)
        page, board = shown.page, shown.page.get_by_role("img", name="Map of 12 nodes")
        board.wait_for()
        before = board.bounding_box()
        step = (before["width"] + 3) // 12  # with a gap of three pixels
        near_corners = [(number * step + 6, 26 + 6) for number in range(12)]
        # A quarter of the cpu is half the side: the square is in the middle half of its cell.
        assert [board.evaluate(IS_DRAWN, at) for at in near_corners] == [False] + [True] * 11
        middle = (step // 2, 26 + step // 2)
        assert board.evaluate(IS_DRAWN, middle)
        for number in (0, 5, 11):
            at = (before["x"] + near_corners[number][0], before["y"] + near_corners[number][1])
            page.mouse.click(*at)
            page.get_by_role("complementary", name=f"Node n{number:02}").wait_for()
            page.get_by_text("0 of 64" if number else "0 of 16", exact=True).wait_for()
            assert board.bounding_box() == before
            # The panel does not cover the node that it describes.
            hit = "([x, y]) => document.elementFromPoint(x, y).tagName"
            assert page.evaluate(hit, at) == "CANVAS"
            page.keyboard.press("Escape")
            page.get_by_role("complementary").wait_for(state="detached")
        # The browser warns about the reads of this test.
        assert [each for each in shown.problems if "getImageData" not in each] == []


def test_a_plan_is_played_wave_by_wave(browser: Any, tmp_path: Path) -> None:
    owner = replica_set("web", 2, cpu="3")
    objects = [node("a"), node("b"), owner, pod_of(owner, 0, "a"), pod_of(owner, 1, "b")]
    dump, plan = written(tmp_path / "dump.json", *objects), tmp_path / "plan.json"
    command = [sys.executable, "-m", "kubesched.cli.main", "plan", "consolidate", "-f", dump]
    with plan.open("w") as file:
        subprocess.run([*command, "-o", "json"], check=True, stdout=file)
    (move,) = json.loads(plan.read_text())["moves"]
    with process("dashboard", "-f", dump, "--plan", str(plan)) as link:
        shown = visit(browser, link)
        page, moment = shown.page, shown.page.get_by_test_id("moment")
        page.get_by_role("heading", name="2 nodes now, 1 in the plan").wait_for()
        numbers = page.get_by_test_id("plan-numbers")
        assert moment.inner_text() == "after wave 1 of 1"
        assert numbers.inner_text().split("\n")[:6:2] == ["2", "1", "1"]
        assert "1 of 1" in numbers.inner_text()
        page.get_by_label("Moment").press("Home")
        page.get_by_text("before the first of 1 wave").wait_for()
        assert moment.inner_text() == "before the first wave"
        assert "0 of 1" in numbers.inner_text()
        page.get_by_role("button", name="Play").click()
        table = page.get_by_role("region", name="Moves of wave 1")
        table.get_by_role("link", name=move["pod"]).wait_for()
        page.get_by_test_id("emptied").get_by_role("link", name=move["from"]).click()
        panel = page.get_by_role("complementary", name=f"Node {move['from']}")
        panel.get_by_text("Cordoned: takes no new pods.").wait_for()
        page.get_by_role("img", name="Map of 2 nodes").wait_for()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert serious_problems(page) == []
        assert shown.problems == []
        assert shown.elsewhere == []


def test_a_simulation_is_shown_over_time(browser: Any, tmp_path: Path) -> None:
    configurations = [{"name": "default"}, {"name": "packed", "config": PACKED}]
    planned, history = tmp_path / "small.json", tmp_path / "run.history"
    planned.write_text(json.dumps(document(configurations=configurations)))
    command = [sys.executable, "-m", "kubesched.cli.main", "simulate", str(planned)]
    subprocess.run(
        [*command, "-o", str(history), "--processes", "1"], check=True, capture_output=True
    )
    with process("dashboard", "--report", str(history)) as link:
        shown = visit(browser, link)
        page = shown.page
        page.get_by_role("heading", name="simulation of small").wait_for()
        page.get_by_text("Pods placed so far").wait_for()
        slider = page.get_by_label("Moment")
        slider.press("PageDown")
        page.wait_for_function("() => location.hash.startsWith('#/report?at=')")
        page.get_by_role("heading", name="simulation of small").wait_for()
        assert serious_problems(page) == []
        page.get_by_role("combobox", name="Run").select_option("packed")
        page.get_by_role("link", name="Cluster", exact=True).click()
        page.get_by_role("img", name="Map of 3 nodes").wait_for()
        slider.press("Home")
        page.get_by_test_id("counts").get_by_text("0", exact=True).first.wait_for()
        assert "run=packed" in page.url
        assert shown.problems == []
        assert shown.elsewhere == []
