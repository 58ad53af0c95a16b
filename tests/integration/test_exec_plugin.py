"""Credentials from a command that is really run."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path

import pytest

from kubesched.api.time import format_time
from kubesched.client.exec_plugin import ExecPlugin, ExecSettings
from kubesched.client.transport import TransportError
from kubesched.util.clock import MINUTE, ManualClock

VERSION = "client.authentication.k8s.io/v1"


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def printing(path: Path, answer: object) -> str:
    """A plugin that notes each run, and what it was told."""
    noted = path.with_suffix(".runs")
    return script(
        path, f"echo \"$KUBERNETES_EXEC_INFO\" >> {noted}\ncat <<'END'\n{json.dumps(answer)}\nEND"
    )


def credential(**status: str) -> dict[str, object]:
    return {"kind": "ExecCredential", "apiVersion": VERSION, "status": status}


def plugin(command: str, clock: ManualClock, **more: object) -> ExecPlugin:
    settings = ExecSettings(command=command, api_version=VERSION, **more)  # type: ignore[arg-type]
    return ExecPlugin(settings, clock)


def test_a_command_is_run_when_its_token_has_expired_or_was_refused(tmp_path: Path) -> None:
    clock = ManualClock(now_ns=1_000_000 * MINUTE)
    answer = credential(token="t", expirationTimestamp=format_time(clock.now_ns() + 5 * MINUTE))
    command = printing(tmp_path / "plugin", answer)
    exec_plugin = plugin(command, clock, cluster={"server": "https://api"})

    def runs() -> list[str]:
        return (tmp_path / "plugin.runs").read_text().splitlines()

    async def use() -> None:
        many = await asyncio.gather(*(exec_plugin.credential() for _ in range(5)))
        assert {each.token for each in many} == {"t"}
        assert len(runs()) == 1
        clock.advance(4 * MINUTE)
        await exec_plugin.credential()
        assert len(runs()) == 1
        clock.advance(1 * MINUTE)
        await exec_plugin.credential()
        assert len(runs()) == 2
        exec_plugin.forget()
        await exec_plugin.credential()
        assert len(runs()) == 3

    asyncio.run(use())
    assert json.loads(runs()[0]) == {
        "kind": "ExecCredential",
        "apiVersion": VERSION,
        "spec": {"interactive": False, "cluster": {"server": "https://api"}},
    }


FAILURES = {
    "a command that fails": ("exit 3", "failed with exit code 3"),
    "a command that prints nonsense": ("echo hello", "decoding stdout"),
    "a command of another version": (
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"t"}}\'',
        "plugin is configured to use API version client.authentication.k8s.io/v1, plugin returned "
        "version client.authentication.k8s.io/v1beta1",
    ),
    "a command that gives nothing": (
        f'echo \'{{"apiVersion":"{VERSION}","status":{{}}}}\'',
        "plugin didn't return a token or cert/key pair",
    ),
}


@pytest.mark.parametrize(("text", "message"), FAILURES.values(), ids=FAILURES)
def test_failures(text: str, message: str, tmp_path: Path) -> None:
    exec_plugin = plugin(script(tmp_path / "plugin", text), ManualClock())
    with pytest.raises(TransportError) as error:
        asyncio.run(exec_plugin.credential())
    assert message in str(error.value)
    assert error.value.kind == "credentials"
