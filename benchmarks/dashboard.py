"""The cost of the page for the scheduler, and the time until a browser shows it.

    python -m benchmarks.dashboard [--nodes 5000] [--rate 500] [--repeat 9] [--browser]

An embedded store and a scheduler with the page of `kubesched run` place pods that are created at a
steady rate, in turn without a page, with a page without viewers, with one viewer, with five, and
with five of which one does not read. Viewers are separate processes, so that only the costs in the
scheduler's process are counted.

Two figures are compared with the turns without a page: pods placed per second of wall-clock time
(`placed_per_s`, whether the scheduler keeps up with the load), and processor time of the
scheduler's process per pod (`cpu_us_per_pod`, what a scheduler at its limit would lose). A turn is
compared with the turn without a page beside it, and the median is printed, since other processes
use the machine too. A separate line has the measured times of the page's own functions with five
viewers, which do not depend on other processes.

With `--rate 0` pods come as fast as they can be created. `--browser` also opens the page in
Chromium and measures the first picture and a click. Prints JSON lines.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import click
from aiohttp.http import StreamWriter
from playwright.sync_api import sync_playwright

from benchmarks.measuring import Stopwatch, peak_rss_mib, write_line
from benchmarks.workloads import make_node, make_pod
from kubesched.api import Pod
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.page_server import PageServer
from kubesched.dashboard.page_sources import dashboard_of_scheduler
from kubesched.dashboard.stream_frames import FrameHub
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.collector import settle_collector
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.scheduler import Scheduler

# name -> (is there a page, viewers that read, viewers that do not)
_ROUNDS: Final = {
    "no page": (False, 0, 0),
    "no viewer": (True, 0, 0),
    "1 viewer": (True, 1, 0),
    "5 viewers": (True, 5, 0),
    "5 viewers, 1 stalled": (True, 4, 1),
}
_VIEWER: Final = """
import sys, urllib.request
stream = urllib.request.urlopen(sys.argv[1] + "api/stream")
seen = len(stream.readline())
print(seen, flush=True)
while sys.argv[2] == "read" and (part := stream.read1(1 << 20)):
    seen += len(part)
import time
time.sleep(3600)
"""
_SETTLED_S: Final = 0.5
_CLOCKED: Final = "5 viewers"
_CLOCKED_PODS: Final = 2000


class Cluster:
    """A store, a scheduler, and perhaps a page."""

    def __init__(self, *, has_page: bool) -> None:
        clock = RealClock()
        self.api = LocalApi(Store(derive(0, "store")), clock)
        self.scheduler = Scheduler(self.api, clock)
        self.server: PageServer | None = None
        if has_page:
            dashboard = dashboard_of_scheduler(
                self.scheduler,
                clock,
                title="benchmark",
                configuration=default_configuration(),
                plugins={},
            )
            self.server = PageServer(dashboard, "127.0.0.1", 0)

    @asynccontextmanager
    async def running(self, nodes: int) -> AsyncIterator[None]:
        for number in range(nodes):
            await self.api.create(make_node(number))
        async with running(self.scheduler):
            await self.scheduler.synced.wait()
            if self.server is None:
                yield
            else:
                async with self.server:
                    yield


async def _paced(api: LocalApi, first: int, pods: int, rate: int) -> None:
    """Create pods at a steady pace, and wait until they are bound."""
    before = await api.list(Pod)
    made = [make_pod(number, "basic", 1) for number in range(first, first + pods)]
    began = time.perf_counter()

    async def create() -> None:
        for number, pod in enumerate(made):
            if rate and (ahead_s := began + number / rate - time.perf_counter()) > 0:
                await asyncio.sleep(ahead_s)
            await api.create(pod)

    creating = asyncio.create_task(create())
    bound = 0
    async for event in api.watch(Pod, resource_version=before.resource_version):
        if event.type == "MODIFIED" and event.object and event.object.spec.node_name:
            bound += 1
            if bound == pods:
                break
    await creating


def _viewers(url: str, reading: int, stalled: int) -> list[subprocess.Popen[bytes]]:
    kinds = ["read"] * reading + ["stall"] * stalled
    return [
        subprocess.Popen([sys.executable, "-c", _VIEWER, url, kind], stdout=subprocess.PIPE)
        for kind in kinds
    ]


class Turn(NamedTuple):
    """The result of one turn."""

    cpu_us_per_pod: float
    placed_per_s: float


async def _turn(cluster: Cluster, name: str, first: int, pods: int, rate: int) -> Turn:
    _, reading, stalled = _ROUNDS[name]
    viewers: list[subprocess.Popen[bytes]] = []
    if cluster.server is not None:
        viewers = _viewers(f"{cluster.server.url}/dashboard/", reading, stalled)
    try:
        for viewer in viewers:
            assert viewer.stdout is not None
            await asyncio.to_thread(viewer.stdout.readline)
        await asyncio.sleep(_SETTLED_S)
        watch = Stopwatch()
        await _paced(cluster.api, first, pods, rate)
        spent = watch.spent()
        return Turn(spent.cpu_s / pods * 1e6, pods / spent.wall_s)
    finally:
        for viewer in viewers:
            viewer.kill()
            viewer.communicate()


class Clocked:
    """Processor time of some functions, while in use; awaiting is not counted."""

    def __init__(self) -> None:
        self.spent_ns: dict[str, int] = dict.fromkeys(_PARTS, 0)
        self._undo: list[tuple[type, str, Any]] = []

    def __enter__(self) -> Clocked:
        for part, places in _PARTS.items():
            for owner, name in places:
                plain = getattr(owner, name)
                self._undo.append((owner, name, plain))
                setattr(owner, name, self._clocked(part, plain))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, plain in self._undo:
            setattr(owner, name, plain)

    def _clocked(self, part: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            began_ns = time.thread_time_ns()
            try:
                return plain(*args)
            finally:
                self.spent_ns[part] += time.thread_time_ns() - began_ns

        return call


# The work of the page in the scheduler's process. Sending is the part of aiohttp that passes bytes
# to the socket; the store's own server runs in another process.
_PARTS: Final[dict[str, tuple[tuple[Any, str], ...]]] = {
    "recorder": (
        (DecisionLog, "decided"),
        (DecisionLog, "changed"),
        (DecisionLog, "removed"),
    ),
    "frames": ((FrameHub, "_has_news"), (FrameHub, "_advance"), (FrameHub, "_encode")),
    "sending": ((StreamWriter, "_write"), (StreamWriter, "_writelines")),
}


class Measured(NamedTuple):
    """Turns by round, and microseconds per pod of the page's parts with five viewers."""

    turns: dict[str, list[Turn]]
    parts: dict[str, float]


async def _measure(nodes: int, pods: int, rate: int, repeat: int) -> Measured:
    """Two clusters, with and without a page, take turns in this one process."""
    turns: dict[str, list[Turn]] = {name: [] for name in _ROUNDS}
    plain, shown = Cluster(has_page=False), Cluster(has_page=True)
    async with plain.running(nodes), shown.running(nodes):
        settle_collector()
        for cluster in (plain, shown):
            await _paced(cluster.api, 0, pods, rate)
        for number in range(1, repeat + 1):
            for place, (name, (has_page, *_)) in enumerate(_ROUNDS.items()):
                first = (number * len(_ROUNDS) + place) * pods
                cluster = shown if has_page else plain
                turns[name].append(await _turn(cluster, name, first, pods, rate))
        with Clocked() as clocked:
            first = (repeat + 1) * len(_ROUNDS) * pods
            await _turn(shown, _CLOCKED, first, _CLOCKED_PODS, rate)
        parts = {part: spent / _CLOCKED_PODS / 1e3 for part, spent in clocked.spent_ns.items()}
    return Measured(turns, parts)


async def _first_picture(nodes: int, rate: int) -> dict[str, float]:
    """Milliseconds until a browser shows the map, and until a click on it has opened a node."""
    cluster = Cluster(has_page=True)
    async with cluster.running(nodes):
        assert cluster.server is not None
        url = f"{cluster.server.url}/dashboard/"
        placing = asyncio.create_task(_paced(cluster.api, 0, 100_000, rate))
        try:
            return await asyncio.to_thread(_browse, url)
        finally:
            placing.cancel()


def _browse(url: str) -> dict[str, float]:
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto("about:blank")
        began = time.perf_counter()
        page.goto(url)
        page.get_by_role("img", name="Map of").wait_for()
        first = time.perf_counter() - began
        clicks, tabs = [], []
        for number in range(10):
            took = page.evaluate(_CLICK, [30 + 40 * number, 60])
            clicks.append(took)
            tabs.append(page.evaluate(_TAB))
        browser.close()
    return {
        "first_picture_ms": round(first * 1000),
        "click_ms": round(statistics.median(clicks), 1),
        "slowest_click_ms": round(max(clicks), 1),
        "view_ms": round(statistics.median(tabs), 1),
    }


# From the event to the frame of the screen after the panel, or the view, is in the page.
_CLICK: Final = """async ([x, y]) => {
  const canvas = document.querySelector('canvas');
  const box = canvas.getBoundingClientRect();
  const began = performance.now();
  const place = {clientX: box.x + x, clientY: box.y + y, bubbles: true};
  canvas.dispatchEvent(new MouseEvent('click', place));
  while (!document.querySelector('aside.panel')) await new Promise(requestAnimationFrame);
  const took = performance.now() - began;
  document.querySelector('aside.panel .close').click();
  while (document.querySelector('aside.panel')) await new Promise(requestAnimationFrame);
  return took;
}"""
_TAB: Final = """async () => {
  const began = performance.now();
  location.hash = '#/live';
  while (!document.querySelector('section.live')) await new Promise(requestAnimationFrame);
  const took = performance.now() - began;
  location.hash = '#/cluster';
  while (!document.querySelector('canvas[role=img]')) await new Promise(requestAnimationFrame);
  return took;
}"""


@click.command(help=__doc__)
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=500, show_default=True, help="In each turn.")
@click.option("--rate", default=500, show_default=True, help="Pods per second; 0: no pause.")
@click.option("--repeat", default=9, show_default=True, help="Turns of each kind.")
@click.option("--browser", is_flag=True, help="Also the first picture and a click, in Chromium.")
def main(nodes: int, pods: int, rate: int, repeat: int, browser: bool) -> None:
    turns, parts = asyncio.run(_measure(nodes, pods, rate, repeat))
    common = {"benchmark": "dashboard", "nodes": nodes, "offered_per_s": rate or "as many as go"}
    base = turns["no page"]
    for name, found in turns.items():
        pairs = list(zip(found, base, strict=True))
        more_cpu = [mine.cpu_us_per_pod / other.cpu_us_per_pod - 1 for mine, other in pairs]
        fewer = [1 - mine.placed_per_s / other.placed_per_s for mine, other in pairs]
        write_line(
            {
                **common,
                "round": name,
                "turns": repeat,
                "placed_per_s": round(statistics.median(each.placed_per_s for each in found), 1),
                "fewer_placed_than_no_page": round(statistics.median(fewer), 4),
                "cpu_us_per_pod": round(statistics.median(each.cpu_us_per_pod for each in found)),
                "least_cpu_us_per_pod": round(min(each.cpu_us_per_pod for each in found)),
                "more_cpu_than_no_page": round(statistics.median(more_cpu), 4),
                "peak_rss_mib": round(peak_rss_mib()),
            }
        )
    least = min(each.cpu_us_per_pod for each in base)
    write_line(
        {
            **common,
            "round": f"{_CLOCKED}, the page's parts clocked",
            "cpu_us_per_pod_of": {part: round(spent, 1) for part, spent in parts.items()},
            "together": round(sum(parts.values()), 1),
            "share_of_no_page": round(sum(parts.values()) / least, 4),
        }
    )
    if browser:
        write_line({**common, **asyncio.run(_first_picture(nodes, rate))})


if __name__ == "__main__":
    main()
