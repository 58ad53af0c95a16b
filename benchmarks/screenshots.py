"""Screenshots of the page for the documentation.

    python -m benchmarks.screenshots docs/images [--every]

Runs `kubesched up` with the sample workload, and simulations of a small and of a large cluster,
opens the pages in Chromium, and writes one PNG per view. `--every` shows each view of the sample in
light and dark at 1280 and at 400 pixels instead, for review after a change of the page.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

_FLAGS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_SETTLED_MS: Final = 1_500
_SLIDE: Final = """slider => {
  slider.value = Number(slider.min) + 0.6 * (slider.max - slider.min);
  slider.dispatchEvent(new Event("input", {bubbles: true}));
}"""
_PACKED: Final = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ],
        }
    ]
}


def _scenario(nodes: int, per_hour: int, **more: Any) -> dict[str, Any]:
    """Make a scenario of a cluster in five zones with services and batch work."""
    zones = ["zone-a", "zone-b", "zone-c", "zone-d", "zone-e"]
    group = {"name": "general", "count": nodes, "cpu": 16, "memory": "64Gi", "zones": zones}
    work = {
        "name": "work",
        "arrivals": {"poisson": f"{per_hour}/h"},
        "cpu": {"choice": ["500m", 1, 2, 4]},
        "memory": {"choice": ["1Gi", "4Gi"]},
        "duration": {"exponential": {"mean": "30m"}},
    }
    return {
        "duration": "1h",
        "step": "1m",
        "cluster": {"nodes": [group]},
        "workloads": [work],
    } | more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", action="store_true")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("no Chromium: apt-get install chromium")
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as place:
        browser = playwright.chromium.launch(executable_path=browser_path, args=_FLAGS)
        with _running("up", "--listen", "127.0.0.1:0") as link:
            if arguments.every:
                _every(_opened(browser, link), folder)
                return
            _sample(_opened(browser, link), folder)
        both = [{"name": "spread"}, {"name": "packed", "config": _PACKED}]
        report = _simulated(_scenario(40, 400, name="spread or pack", configurations=both), place)
        with _running("dashboard", "--report", report) as link:
            page = _opened(browser, link)
            page.get_by_label("Moment").evaluate(_SLIDE)
            page.wait_for_timeout(_SETTLED_MS)
            page.screenshot(path=folder / "report.png")
        large = _simulated(
            _scenario(5000, 60_000, name="five thousand nodes", duration="12m"), place
        )
        with _running("dashboard", "--report", large) as link:
            page = _opened(browser, link)
            page.goto(page.url.partition("#")[0] + "#/cluster")
            page.locator("canvas").wait_for(timeout=60_000)
            page.wait_for_timeout(_SETTLED_MS)
            page.screenshot(path=folder / "large.png")
        browser.close()


@contextlib.contextmanager
def _running(*arguments: str) -> Iterator[str]:
    """Run a kubesched that serves the page, and yield its link."""
    with subprocess.Popen(
        [sys.executable, "-m", "kubesched.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found := re.search(r"Dashboard:\s+(\S+)", line):
                    threading.Thread(target=process.stdout.read, daemon=True).start()
                    yield found.group(1)
                    break
            else:
                sys.exit(f"kubesched {arguments[0]} printed no link")
        finally:
            process.terminate()


def _simulated(scenario: dict[str, Any], place: str) -> str:
    """The history of a simulation."""
    given, history = Path(place) / "scenario.json", str(Path(place) / "run.history")
    given.write_text(json.dumps(scenario))
    command = [sys.executable, "-m", "kubesched.cli.main", "simulate", str(given), "--fresh"]
    subprocess.run([*command, "-o", history], check=True, stdout=subprocess.DEVNULL)
    return history


def _opened(browser: Browser, link: str) -> Page:
    screen = {"width": 1280, "height": 800}
    page = browser.new_context(ignore_https_errors=True, viewport=screen).new_page()
    page.goto(link)
    page.locator("main h1").first.wait_for(state="attached")
    return page


_VIEWS: Final = {
    "cluster": ("#/cluster", "canvas"),
    "node": ("#/cluster?node=node-05", ".packed"),
    "live": ("#/live", "tbody tr"),
    "queue": ("#/queue", "tbody tr"),
    "pod": ("#/pod/batch/giant-000", "[data-testid=summary]"),
    "whatif": ("#/whatif?drain=node-01&play=1", "[data-testid=answer]"),
    "try": ("#/try", "textarea"),
}


def _every(page: Page, folder: Path) -> None:
    """Every view, light and dark, wide and narrow."""
    page.wait_for_timeout(3 * _SETTLED_MS)
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 800})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            for name, (address, shows) in _VIEWS.items():
                page.goto(page.url.partition("#")[0] + address)
                page.locator(shows).first.wait_for(timeout=60_000)
                page.wait_for_timeout(_SETTLED_MS)
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png")


def _sample(page: Page, folder: Path) -> None:
    base = page.url.partition("#")[0]
    page.wait_for_timeout(3 * _SETTLED_MS)

    def take(name: str, address: str, shows: str, dark: bool = False) -> None:
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.goto(base + address)
        page.locator(shows).first.wait_for()
        page.wait_for_timeout(_SETTLED_MS)
        page.screenshot(path=folder / f"{name}.png")

    take("cluster", "#/cluster?node=node-05", ".packed")
    take("cluster-dark", "#/cluster", "canvas", dark=True)
    take("queue", "#/queue", "tbody tr")
    take("live", "#/live", "tbody tr")
    page.get_by_role("button", name="Pause").click()
    page.locator("tr", has_text="placed").get_by_role("button").first.click()
    page.get_by_test_id("decision").wait_for()
    page.wait_for_timeout(_SETTLED_MS)
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=folder / "live.png")
    page.goto(base + "#/pod/batch/giant-000")
    page.get_by_test_id("summary").wait_for(timeout=60_000)
    page.wait_for_timeout(_SETTLED_MS)
    page.screenshot(path=folder / "pod.png")
    page.goto(base + "#/whatif?drain=node-01&play=1")
    page.get_by_test_id("answer").wait_for(timeout=60_000)
    page.screenshot(path=folder / "whatif.png")
    page.set_viewport_size({"width": 400, "height": 800})
    take("phone", "#/pod/batch/giant-000", "[data-testid=summary]", dark=True)


if __name__ == "__main__":
    main()
