"""Invalid files: each command prints one line that names the file, and no traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kubesched.cli import main as command_line
from kubesched.cli.main import main
from kubesched.explain.clusters import dump_files

CONTENT = {
    "binary": bytes(range(256)) * 4,
    "latin": b"a: \xe9\xff\n",
    "deep": b"[" * 20_000,
    "long number": b"a: " + b"9" * 5000 + b"\n",
    "no date": b"a: 2026-99-99\n",
    "wide": b"\xff\xfea\x00:\x00",
    "no gzip": b"\x1f\x8b\x08\x00junk",
    "bad gzip": b"\x1f\x8b\x08\x00" + bytes(6) + b"\xff" * 50,
}
COMMANDS = {
    "up": ["up", "--exit", "-f"],
    "up --config": ["up", "--exit", "--config"],
    "up --behavior": ["up", "--exit", "--behavior"],
    "config": ["config", "validate"],
    "run": ["run", "--config"],
    "run --kubeconfig": ["run", "--leader-elect=false", "--secure-port=0", "--kubeconfig"],
    "explain": ["explain", "pod", "p", "-f"],
    "check": ["check"],
    "simulate": ["simulate"],
    "tune": ["tune"],
    "explain --capture": ["explain", "pod", "p", "--capture"],
    "dashboard --capture": ["dashboard", "--capture"],
    "dashboard --report": ["dashboard", "--report"],
}


@pytest.mark.parametrize("content", CONTENT.values(), ids=CONTENT)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_bad_files_are_reported_in_one_line(
    command: list[str],
    content: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_bytes(content)
    monkeypatch.setattr(sys, "argv", ["kubesched", *command, str(bad)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (1, 2)
    said = capsys.readouterr().err
    assert said.strip()
    assert "Traceback" not in said
    assert len(said.splitlines()) < 10


def test_a_file_that_is_larger_than_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def too_large(path: Path) -> bytes:
        raise MemoryError

    monkeypatch.setattr(dump_files, "read_bounded", too_large)
    (tmp_path / "huge").touch()
    line = ["kubesched", "fit", "-f", str(tmp_path / "huge")]
    monkeypatch.setattr(command_line.sys, "argv", line)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said == "kubesched: not enough memory to process the input\n"


SCENARIO = """\
cluster:
  nodes: [{name: 'n', count: 1, cpu: 1, memory: 1Gi}]
duration: 1m
traces: [{file: %s}]
"""


@pytest.mark.parametrize("content", [CONTENT["latin"], CONTENT["bad gzip"]], ids=["latin", "gzip"])
def test_files_that_a_scenario_names(
    content: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "trace.jsonl").write_bytes(content)
    (tmp_path / "scenario.yaml").write_text(SCENARIO % "trace.jsonl")
    monkeypatch.setattr(sys, "argv", ["kubesched", "simulate", str(tmp_path / "scenario.yaml")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (1, 2)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "trace.jsonl" in said
