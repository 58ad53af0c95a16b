"""The command as a whole: its subcommands, its help, and its usage errors."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from kubesched.cli.main import cli, main


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        yield (*path, name)
        command = group.get_command(ctx, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


COMMANDS = list(commands(cli))


@pytest.mark.parametrize("path", [(), *COMMANDS], ids=" ".join)
def test_every_command_has_help_with_an_example(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*path, "--help"], prog_name="kubesched")
    assert done.exit_code == 0
    assert "Example" in done.stdout
    assert " ".join(["kubesched", *path]) in done.stdout.partition("Example")[2]


def test_the_list_of_commands_has_the_summary_of_each_command() -> None:
    ctx = click.Context(cli)
    listed = " ".join(CliRunner().invoke(cli, ["--help"]).stdout.split())
    for name in cli.list_commands(ctx):
        command = cli.get_command(ctx, name)
        assert command is not None
        assert f"{name} {command.short_help}" in listed


MISTAKES = {
    "upp": "kubesched: no such command 'upp'; did you mean 'up'?",
    "frobnicate": "kubesched: no such command 'frobnicate'",
    "up --exi": "kubesched up: no such option '--exi'. Did you mean '--exit'?",
    "up --seed many": "kubesched up: invalid value for '--seed': 'many' is not a valid integer",
    "node add --taint a": (
        "kubesched node add: invalid value for '--taint': 'a' is not KEY=VALUE:EFFECT"
    ),
    "node remove": "kubesched node remove: missing argument 'NAMES...'",
    "capture": "kubesched capture: missing option '--out' / '-o'",
}


@pytest.mark.parametrize(("line", "want"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_is_reported_in_one_line_with_a_reference_to_the_help(
    line: str, want: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kubesched", *line.split()])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert (said[0].startswith(want), len(said)) == (True, 2), said
    assert said[1].endswith("--help shows how it is used")


def test_control_characters_of_arguments_are_printed_as_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kubesched", "explain", "pods", "--kubeconfig", "\x1b[31m\a"])
    with pytest.raises(SystemExit):
        main()
    (first, *_) = capsys.readouterr().err.splitlines()
    assert first == "kubesched: \\x1b[31m\\x07: there is no such kubeconfig file"
