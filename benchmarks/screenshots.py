"""Pictures of the page on a real run, for the documents.

    python -m benchmarks.screenshots docs/images

Starts `kubesched up` with the sample workload, opens the page in Chromium, and writes one PNG per
view.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
_SETTLED_MS = 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("no Chromium: apt-get install chromium")
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "kubesched.cli.main", "up", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            link = _link(process)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=browser_path, args=_FLAGS)
                page = browser.new_context(
                    ignore_https_errors=True, viewport={"width": 1280, "height": 800}
                ).new_page()
                page.goto(link)
                _take(page, link.partition("?")[0], folder)
                browser.close()
        finally:
            process.terminate()


def _link(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"Dashboard:\s+(\S+)", line):
            return found.group(1)
    sys.exit("kubesched up printed no link")


def _take(page: Page, base: str, folder: Path) -> None:
    page.wait_for_timeout(2 * _SETTLED_MS)
    for name, address in (
        ("cluster", "#/cluster?node=node-05"),
        ("queue", "#/queue"),
        ("live", "#/live"),
    ):
        page.goto(base + address)
        page.wait_for_timeout(_SETTLED_MS)
        page.screenshot(path=folder / f"{name}.png")
    page.goto(base + "#/queue")
    page.locator("table a").first.click()
    page.get_by_test_id("summary").wait_for()
    page.screenshot(path=folder / "pod.png")
    page.goto(base + "#/whatif")
    page.get_by_label("Drain nodes").fill("node-01")
    page.get_by_role("button", name="Play").click()
    page.get_by_test_id("answer").wait_for()
    page.screenshot(path=folder / "whatif.png")


if __name__ == "__main__":
    main()
