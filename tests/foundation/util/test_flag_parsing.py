from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.foundation.util.flag_parsing import Flag, FlagError, FlagGroup, parse, usage
from kubesched.foundation.util.flag_values import BOOL, INT, STRING, STRING_LIST

GROUPS = (
    FlagGroup(
        "misc",
        (
            Flag("dry-run", BOOL, False, "Change nothing."),
            Flag("name", STRING, "me", "Who."),
            Flag("items", STRING_LIST, ("x",), "What."),
        ),
    ),
    FlagGroup(
        "global",
        (
            Flag("level", INT, 0, "How much.", shorthand="l"),
            Flag("help", BOOL, False, "Show this.", shorthand="h"),
        ),
    ),
)

PARSED: dict[str, tuple[list[str], str, object]] = {
    "a default": ([], "name", "me"),
    "a value after =": (["--name=a=b"], "name", "a=b"),
    "an empty value": (["--name="], "name", ""),
    "a value in the next argument": (["--name", "--dry-run"], "name", "--dry-run"),
    "the last one wins": (["--name=a", "--name=b"], "name", "b"),
    "the first use of a list replaces the default": (["--items=a,b"], "items", ("a", "b")),
    "later uses of a list append": (["--items=a", "--items=b,c"], "items", ("a", "b", "c")),
    "a boolean needs no value": (["--dry-run"], "dry-run", True),
    "a boolean takes a value with = only": (["--dry-run=false"], "dry-run", False),
    "underscores are dashes": (["--dry_run"], "dry-run", True),
    "a letter": (["-l", "3"], "level", 3),
    "a letter and its value": (["-l3"], "level", 3),
    "a letter, =, and its value": (["-l=3"], "level", 3),
    "letters together": (["-hl3"], "level", 3),
    "a letter's long name": (["--level=3"], "level", 3),
}


@pytest.mark.parametrize(("argv", "name", "want"), PARSED.values(), ids=PARSED)
def test_parsed(argv: list[str], name: str, want: object) -> None:
    assert parse(GROUPS, argv)[name] == want


ARGUMENTS = {
    "arguments between flags": (["a", "--dry-run", "b"], ["a", "b"]),
    "a boolean does not take the next argument": (["--dry-run", "false"], ["false"]),
    "everything after two dashes": (["--", "--dry-run", "-x"], ["--dry-run", "-x"]),
    "a single dash and nothing": (["-", ""], ["-", ""]),
}


@pytest.mark.parametrize(("argv", "want"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments(argv: list[str], want: list[str]) -> None:
    assert parse(GROUPS, argv).arguments == want


ERRORS = {
    "unknown": (["--nope=1"], "unknown flag: --nope"),
    "unknown, with underscores as written": (["--no_pe"], "unknown flag: --no_pe"),
    "unknown letter": (
        ["-lx"],
        'invalid argument "x" for "-l, --level" flag: '
        'strconv.ParseInt: parsing "x": invalid syntax',
    ),
    "unknown letter among others": (["-hz1"], "unknown shorthand flag: 'z' in -z1"),
    "no value left": (["--name"], "flag needs an argument: --name"),
    "no value left for a letter": (["-l"], "flag needs an argument: 'l' in -l"),
    "no name": (["--=x"], "bad flag syntax: --=x"),
    "three dashes": (["---name"], "bad flag syntax: ---name"),
    "not a boolean": (
        ["--dry-run=maybe"],
        'invalid argument "maybe" for "--dry-run" flag: '
        'strconv.ParseBool: parsing "maybe": invalid syntax',
    ),
}


@pytest.mark.parametrize(("argv", "want"), ERRORS.values(), ids=ERRORS)
def test_errors(argv: list[str], want: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse(GROUPS, argv)
    assert str(caught.value) == want


def test_flags_that_were_set_are_recorded() -> None:
    flags = parse(GROUPS, ["--name=me", "-l0x10"])
    assert flags.given == {"name": "me", "level": "0x10"}
    assert "level" in flags.given
    assert "items" not in flags.given
    assert flags.texts() == {
        "dry-run": "false",
        "help": "false",
        "items": "[x]",
        "level": "16",
        "name": "me",
    }


def test_the_usage_lists_groups_and_sorts_flags() -> None:
    assert usage(GROUPS) == (
        "\nMisc flags:\n\n"
        "      --dry-run         Change nothing.\n"
        "      --items strings   What. (default [x])\n"
        '      --name string     Who. (default "me")\n'
        "\nGlobal flags:\n\n"
        "  -h, --help        Show this.\n"
        "  -l, --level int   How much.\n"
    )


def test_the_usage_wraps() -> None:
    group = FlagGroup("misc", (Flag("name", STRING, "", "one two three four five six seven"),))
    assert usage([group], 40) == (
        "\nMisc flags:\n\n"
        "      --name string\n"
        "                    one two three four\n"
        "                    five six seven\n"
    )


@given(st.lists(st.text("-=hl03namedryunites_, \"'x", max_size=12)))
def test_random_command_lines_are_parsed_or_refused(argv: list[str]) -> None:
    with contextlib.suppress(FlagError):
        parse(GROUPS, argv)
