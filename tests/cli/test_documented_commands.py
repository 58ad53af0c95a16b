"""The `kubesched` commands that documents show have options and arguments that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from kubesched.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs" / "howto").glob("*.md"),
    *(ROOT / "docs" / "contrib").glob("*.md"),
    *(ROOT / "examples").rglob("README.md"),
]
COMMAND = re.compile(r"^(?: {4}|\$ )(?:\.venv/bin/)?kubesched ([a-z].*)$", re.MULTILINE)
REST = re.compile(r" [|>] | && |; ")


def commands() -> dict[str, list[str]]:
    found = {}
    for page in PAGES:
        for line in COMMAND.findall(page.read_text().replace("\\\n", " ")):
            words = shlex.split(REST.split(line)[0], comments=True)
            # `run` has the flags of kube-scheduler, with a parser of its own.
            if words[0] != "run":
                found[f"{page.name}: {' '.join(words)}"] = words
    return found


COMMANDS = commands()


def parse(command: click.Command, name: str, words: Sequence[str], parent: click.Context) -> None:
    """Parse a command line without running it. Raises ClickException."""
    if isinstance(command, click.Group):
        subcommand_name, subcommand, rest = command.resolve_command(parent, list(words))
        assert subcommand is not None
        assert subcommand_name is not None
        parse(subcommand, subcommand_name, rest, click.Context(subcommand, parent=parent))
        return
    command.make_context(name, list(words), parent=parent.parent)


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_the_command_line_is_accepted(words: list[str]) -> None:
    try:
        parse(cli, "kubesched", words, click.Context(cli))
    except click.BadParameter as error:
        if "does not exist" not in error.format_message():  # a file of the reader's
            raise


def test_the_documents_show_commands() -> None:
    assert len(COMMANDS) > 60
