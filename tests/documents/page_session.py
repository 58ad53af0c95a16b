"""A folder in which the commands and the Python examples of one page run, in their order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.documents.page_blocks import ROOT, Block, Command, commands_of, missing_line

IMPORTED = ("src", ".", "examples/house_scheduler/src")
LINKED = ("examples", "deploy", "benchmarks", "tests", "docs", "src", "Makefile")
# What a test needs in place of what a page shows.
REPLACED = {
    r"127\.0\.0\.1:(6443|8080)": "127.0.0.1:0",
    r"\.venv/bin/": "",
    r"\bkubesched run (?=--config)": "kubesched run --secure-port 0 ",
    r"\b8080:80\b": ":80",
    r"/home/me/\.kube/config": ".kubeconfig",
    r"\"staging\"": '"kubesched-reader"',
    r"\bsimulate (?=\w)": "simulate --processes 1 ",
    r" --at 2\S+": "",  # the time is that of the recording shown on the page
    r"/var/lib/kubesched/": "",
}
MAKE = re.compile(r"(?:\w+=\S+ )?make ([\w-]+)")
SERVES = re.compile(
    r"(kubesched up (?!.*--(exit|detach))|kubesched run (?!.*--(help|version))"
    r"|kubesched dashboard (?!.*--name))"
)
# these print the output of other processes
FOLLOWS = re.compile(r".*(--watch|--follow|port-forward)\b|.*&\s*$")
READY = re.compile(r"https?://|Starting (to compare|Kubernetes Scheduler)")
TESTS = re.compile(r"^(async )?def test_", re.MULTILINE)
RUN_PYTHON = """\
import ast, asyncio, inspect, pathlib, sys
code = compile(pathlib.Path(sys.argv[1]).read_text(), sys.argv[1], "exec",
               ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
names = {"__name__": "__main__"}
made = eval(code, names)
if inspect.iscoroutine(made):
    asyncio.run(made)
"""
RUN_COROUTINES = """\
import asyncio, inspect
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        asyncio.run(pyfuncitem.obj())
        return True
"""


class PageSession:
    """Runs the blocks of a page in a folder of its own, with a home and a kubeconfig of its own."""

    def __init__(self, folder: Path, page: str) -> None:
        self.folder, self.page = folder, page
        self._servers: list[tuple[str, subprocess.Popen[str]]] = []
        self._state = folder / ".environment"
        self._state.write_text("")
        for linked in LINKED:
            (folder / linked).symlink_to(ROOT / linked)
        programs = folder / ".bin"
        programs.mkdir()
        shim = programs / "kubesched"
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m kubesched.cli.main "$@"\n')
        shim.chmod(0o755)
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != "KUBECONFIG"},
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(folder / ".kubeconfig"),
            "XDG_STATE_HOME": str(folder / ".state"),
            "PYTHONPATH": ":".join(str(ROOT / each) for each in IMPORTED),
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": "80",
        }

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, block: Block) -> None:
        """Run the commands of a block, and compare their output with what the page shows."""
        if block.language != "console":
            self._checked(Command(block.text, ()), block.place)
            return
        for command in commands_of(block):
            if SERVES.match(command.line):
                self._serve(command, block.place)
            elif FOLLOWS.match(command.line):
                self._follow(command, block.place)
            else:
                self._checked(command, block.place)

    def command(self, line: str) -> str:
        """Run a command that prepares the page."""
        return self._checked(Command(line, ()), "preparation")

    def serve(self, line: str) -> None:
        self._serve(Command(line, ()), "preparation")

    def _checked(self, command: Command, place: str) -> str:
        line = _replaced(command.line)
        if target := MAKE.match(line):  # The target exists; what it does has its own tests.
            named = re.compile(rf"^{target[1]}:", re.MULTILINE)
            assert named.search((ROOT / "Makefile").read_text()), f"{place}: {line}"
            return ""
        script = f"set -a; . {self._state}; set +a\n{line}\nexport -p > {self._state}\n"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{place}: {line}\n{done.stdout}"
        missing = missing_line(command.shown, done.stdout)
        assert missing is None, f"{place}: {line}\nthe page shows {missing!r}\n{done.stdout}"
        return done.stdout

    def _serve(self, command: Command, place: str) -> None:
        """Start a command that runs until it is stopped, and wait for what it prints first."""
        process, log = self._start(command, place)
        while process.poll() is None:  # the time limit of the test ends the wait
            printed = log.read_text()
            if READY.search(printed) and missing_line(command.shown, printed) is None:
                return
            time.sleep(0.05)
        line = command.line
        if process.returncode == 0:  # `up` without a terminal ends when it has shown its summary
            missing = missing_line(command.shown, log.read_text())
            assert missing is None, f"{place}: {line}\nthe page shows {missing!r}"
            return
        raise AssertionError(f"{place}: {line} ended with {process.returncode}\n{log.read_text()}")

    def _follow(self, command: Command, place: str) -> None:
        """Start a command that prints what other processes do, and wait for its first output.

        Without the wait the next command could remove files that it opens.
        """
        process, log = self._start(command, place)
        while process.poll() is None and not log.read_text():
            time.sleep(0.05)

    def _start(self, command: Command, place: str) -> tuple[subprocess.Popen[str], Path]:
        line = _replaced(re.sub(r"\s*(&\s*|#.*)$", "", command.line))
        log = self.folder / f".server-{len(self._servers)}"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"set -a; . {self._state}; set +a\nexec {line}"],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._servers.append((f"{place}: {line}", process))
        return process, log

    def run_python(self, blocks: list[Block], prelude: str) -> None:
        """Run the Python examples of the page: as one program, and each test with what precedes it.

        An indented block continues the class before it.
        """
        program: list[str] = [prelude]
        tests: list[str] = []
        for block in blocks:
            text = _replaced(_at_top_level(block, program))
            if TESTS.search(text):
                tests.append(f"test_page_{block.line}.py")
                self.write(tests[-1], "\n".join([*program, text]))
            else:
                program.append(text)
        self.write("conftest.py", RUN_COROUTINES)
        self.write("run_page.py", RUN_PYTHON)
        self.write("page.py", "\n".join(program))
        self._checked(Command("python run_page.py page.py", ()), blocks[0].page)
        if tests:
            line = "python -m pytest -q -p no:cacheprovider --rootdir . " + " ".join(tests)
            self._checked(Command(line, ()), blocks[0].page)

    def stop_servers(self) -> None:
        """Interrupt what still runs; it ends without an error."""
        problems = []
        for line, process in reversed(self._servers):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            if process.wait() not in (0, 130, -signal.SIGINT) and "kubectl" not in line:
                problems.append(f"{line} ended with {process.returncode}")
        self._servers.clear()
        assert problems == [], problems

    def close(self) -> None:
        try:
            self.stop_servers()
        finally:
            if (self.folder / ".state").exists():
                self.command("kubesched down --all")


def _replaced(line: str) -> str:
    for pattern, replacement in REPLACED.items():
        line = re.sub(pattern, replacement, line)
    return line


def _at_top_level(block: Block, before: list[str]) -> str:
    if not block.text.startswith("    "):
        return block.text
    classes = re.findall(r"^class (\w+)\b", "\n".join(before), re.MULTILINE)
    assert classes, f"{block.place}: no class before it"
    return f"class {classes[-1]}({classes[-1]}):\n{block.text}"
