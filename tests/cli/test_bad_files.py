"""Files that are not what they should be: one line that names them, and no traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kubesched.cli.main import main

CONTENT = {
    "binary": bytes(range(256)) * 4,
    "latin": b"a: \xe9\xff\n",
    "deep": b"[" * 20_000,
    "long number": b"a: " + b"9" * 5000 + b"\n",
    "no date": b"a: 2026-99-99\n",
    "wide": b"\xff\xfea\x00:\x00",
    "no gzip": b"\x1f\x8b\x08\x00junk",
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
}


@pytest.mark.parametrize("content", CONTENT.values(), ids=CONTENT)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_one_line(
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
