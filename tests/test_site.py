"""The documentation site builds without warnings, loads nothing from elsewhere, and is complete."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

import kubesched.framework
from kubesched.cli.main import COMMANDS
from kubesched.scheduler.server.options.flags import all_flags

ROOT = Path(__file__).resolve().parents[1]
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}

# They have all that pages are made of: code with numbers and links, wide tables, a notebook.
CHECKED_PAGES = ("index.html", "plan.html", "plugins.html", "howto/study-a-policy.html")


class LoadedAddresses(HTMLParser):
    """Collects the addresses that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if address := dict(attrs).get(LOADED.get(tag, "")):
            self.found.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def serious_problems(site: Path) -> list[str]:
    """Return what axe finds serious on some pages, if there is a browser."""
    browser = os.environ.get("KUBESCHED_BROWSER") or shutil.which("chromium")
    if browser is None:
        return []
    found: list[str] = []
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = launched.new_context(color_scheme=scheme).new_page()
            for name in CHECKED_PAGES:
                page.goto((site / name).as_uri())
                found += [
                    f"{scheme} {name} {each['id']}: {each['nodes'][0]['html']}"
                    for each in Axe().run(page).response["violations"]
                    if each["impact"] in ("serious", "critical")
                ]
        launched.close()
    return found


def test_the_site_is_whole(site: Path) -> None:
    """A single test, because it builds the site once."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        addresses = LoadedAddresses()
        addresses.feed(text)
        for address in addresses.found:
            parts = urlsplit(address)
            assert not parts.netloc, f"{page}: {address}"
            assert parts.path.startswith("/") or (page.parent / parts.path).exists(), address
        assert 'class="mermaid"' not in text, "the theme would load its program from elsewhere"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//", style.read_text()), style

    def text_of(page: str) -> str:
        return (site / "generated" / f"{page}.html").read_text()

    assert [name for name in COMMANDS if f"kubesched {name}" not in text_of("commands")] == []
    assert [flag for flag in all_flags() if f"--{flag.name}" not in text_of("flags")] == []
    contract = text_of("plugin-contract")
    assert [name for name in kubesched.framework.__all__ if name not in contract] == []
    assert "scheduler_schedule_attempts_total" in text_of("metrics")
    assert "kubesched_config_reloads_total" in text_of("metrics")
    assert serious_problems(site) == []
    assert "podInitialBackoffSeconds" in text_of("configuration-fields")
    for schema in (site / "schemas").glob("*.json"):
        assert json.loads(schema.read_text())
    assert len(list((site / "schemas").glob("*.json"))) == 15
