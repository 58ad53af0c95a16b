"""The outcome of literal commands, predicted without running them.

The module understands `exit N`, `sleep N`, `echo`, `true` and `false`, alone or in sequence in a
shell, an endless loop, and what a script does on SIGTERM (`trap`). For any other command the
outcome is None, and the caller chooses a default.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from kubesched.foundation.util.clock import MINUTE, SECOND

__all__ = [
    "CommandOutcome",
    "LiteralOutput",
    "literal_outcome",
    "literal_output",
    "literal_termination",
    "shell_script",
]

_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_STEP = re.compile(r"\s*(?:&&|;|\n)\s*")
_ENDLESS = re.compile(
    r"\s*while\s+(?:true|:)\s*(?:;|\n)\s*do\b((?!break|exit).)*\bdone\s*;?\s*", re.DOTALL
)
_FUNCTION = re.compile(r"\b(\w+)\s*\(\)\s*\{(.*?)\}\s*;?", re.DOTALL)
_TRAP = re.compile(r"""\btrap\s+(?:'([^']*)'|"([^"]*)"|(\w+))\s+(?:SIG)?TERM\b\s*;?""")
_UNITS = {"": SECOND, "s": SECOND, "m": MINUTE, "h": 60 * MINUTE, "d": 24 * 60 * MINUTE}
# Characters that a shell would interpret instead of printing.
_SPECIAL = re.compile(r"[$`*?<>|&\\]")
_TO_STDERR = re.compile(r"\s*1?>&2\s*$")
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", re.ASCII)


class CommandOutcome(NamedTuple):
    """How long a container runs (None: without end), and its exit code."""

    duration_ns: int | None
    exit_code: int = 0


class LiteralOutput(NamedTuple):
    """What a command prints to each of its outputs."""

    stdout: str = ""
    stderr: str = ""


def literal_outcome(command: Sequence[str]) -> CommandOutcome | None:
    """Return the outcome of a container with this command; None if it is unknown."""
    words = list(command)
    if not words:
        return None
    text = shell_script(words)
    if text is None:
        return _simple(words)
    text = _TRAP.sub("", _FUNCTION.sub("", text))
    return CommandOutcome(None) if _ENDLESS.fullmatch(text) else _script(text)


def literal_output(command: Sequence[str]) -> LiteralOutput:
    """Return what the `echo` commands of a command print before its first other outcome."""
    words = list(command)
    if not words:
        return LiteralOutput()
    text = shell_script(words)
    if text is None:
        is_echo = _program(words[0]) == "echo"
        return LiteralOutput(f"{' '.join(words[1:])}\n" if is_echo else "")
    stdout: list[str] = []
    stderr: list[str] = []
    for step in _STEP.split(text.strip()):
        plain = _TO_STDERR.sub("", step)
        try:
            parts = shlex.split(plain)
        except ValueError:
            break
        if parts and _program(parts[0]) == "echo" and not _SPECIAL.search(plain):
            (stdout if plain == step else stderr).append(f"{' '.join(parts[1:])}\n")
        elif (done := _simple(parts) if parts else None) is not None and (
            done.exit_code or done.duration_ns is None or parts[0] == "exit"
        ):
            break
    return LiteralOutput("".join(stdout), "".join(stderr))


def literal_termination(command: Sequence[str]) -> CommandOutcome | None:
    """Return the outcome of this command on SIGTERM; None if it has no trap for it."""
    text = shell_script(command)
    found = None if text is None else _TRAP.search(text)
    if found is None or text is None:
        return None
    if (name := found[3]) is None:
        return _script(found[1] or found[2] or "")
    bodies = {function[1]: function[2] for function in _FUNCTION.finditer(text)}
    return _script(bodies[name]) if name in bodies else None


def shell_script(words: Sequence[str]) -> str | None:
    """Return the script in a shell command, or None."""
    if len(words) == 3 and _program(words[0]) in _SHELLS and words[1] in ("-c", "-ec"):
        return words[2]
    return None


def _script(text: str) -> CommandOutcome | None:
    total_ns = 0
    outcome = CommandOutcome(0)
    for step in _STEP.split(text.strip()):
        if not step:
            continue
        done = _simple(_TO_STDERR.sub("", step).split())
        if done is None:
            return None
        if done.duration_ns is None:
            return CommandOutcome(None)
        total_ns += done.duration_ns
        outcome = CommandOutcome(total_ns, done.exit_code)
        if done.exit_code or step.split()[0] == "exit":
            break
    return outcome


def _simple(words: Sequence[str]) -> CommandOutcome | None:
    match _program(words[0]), list(words[1:]):
        case "true" | ":", _:
            return CommandOutcome(0)
        case "false", _:
            return CommandOutcome(0, 1)
        case "echo", [*texts] if not any(map(_SPECIAL.search, texts)):
            return CommandOutcome(0)
        case "exit", []:
            return CommandOutcome(0)
        case "exit", [code] if code.isdecimal():
            return CommandOutcome(0, int(code) & 255)
        case "sleep", ["infinity" | "inf"]:
            return CommandOutcome(None)
        case "sleep", [*amounts] if amounts:
            parts = [_AMOUNT.fullmatch(amount) for amount in amounts]
            if all(parts):
                return CommandOutcome(sum(round(float(p[1]) * _UNITS[p[2]]) for p in parts if p))
    return None


def _program(word: str) -> str:
    return word.rpartition("/")[2]
