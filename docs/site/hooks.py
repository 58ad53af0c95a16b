"""Hooks of MkDocs: adds generated pages, and files of the repository that documents link to.

A link from a document to a file outside `docs/`, such as `../examples/spare_nodes.py`, works in a
clone. On the site it leads to a page that shows the file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from mkdocs.structure.files import File, Files
from reference_pages import PAGES, schema_files

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".md": "markdown", ".json": "json"}


def on_config(config: Any) -> Any:
    """List the decision records in the navigation."""
    records = sorted((DOCS / "decisions").glob("*.md"))
    config.nav = [
        _with_records(part, [f"decisions/{each.name}" for each in records]) for part in config.nav
    ]
    return config


def _with_records(part: Any, records: list[str]) -> Any:
    if isinstance(part, dict):
        return {
            name: records if inner == "decisions" else _with_records(inner, records)
            for name, inner in part.items()
        }
    return [_with_records(each, records) for each in part] if isinstance(part, list) else part


def on_files(files: Files, config: Any) -> Files:
    for name, write in PAGES.items():
        files.append(File.generated(config, f"generated/{name}.md", content=write()))
    for name, text in schema_files().items():
        files.append(File.generated(config, f"schemas/{name}", content=text))
    shown = set(ALWAYS)
    for page in list(files.documentation_pages()):
        shown |= {target for target, _, _ in _outside(page.src_uri, page.content_string)}
    for target in sorted(shown):
        files.append(File.generated(config, _page_of(target), content=_shown(target)))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Direct links to files of the repository to the pages that show them."""
    uri = page.file.src_uri
    for target, old, new in _outside(uri, markdown):
        if files.get_file_from_path(_page_of(target)):
            markdown = markdown.replace(old, new)
    return markdown


def _outside(uri: str, markdown: str) -> list[tuple[str, str, str]]:
    """Return the links out of `docs/`: the file, the link's text, and the text to put there."""
    if uri.startswith("repository/"):
        return []
    folder = PurePosixPath("docs") / PurePosixPath(uri).parent
    found = []
    for before, link, after in LINK.findall(markdown):
        if "://" in link or link.startswith("mailto:"):
            continue
        target = normpath(str(folder / link))
        if target.startswith("docs/") or target == "docs":
            continue
        if (ROOT / target).is_dir():
            target = f"{target}/README.md"
        if (ROOT / target).is_file():
            new = relpath(_page_of(target), str(PurePosixPath(uri).parent))
            found.append((target, before + link + after, before + new + ")"))
    return found


def _page_of(target: str) -> str:
    return f"repository/{target}" if target in ALWAYS else f"repository/{target}.md"


def _shown(target: str) -> str:
    """Return the page that shows a file of the repository."""
    text = (ROOT / target).read_text()
    if target in ALWAYS:
        return LINK.sub(_from_root, text)
    language = LANGUAGES.get(Path(target).suffix, "text")
    return f"# {target}\n\n````{language}\n{text}````\n"


def _from_root(link: re.Match[str]) -> str:
    """Rewrite a link of a file in the repository's root."""
    before, target, after = link.groups()
    if target.startswith("docs/") and (ROOT / target).is_file():
        return f"{before}../{target.removeprefix('docs/')}{after}"
    return link[0] if "://" in target else f"{before}../index.md)"
