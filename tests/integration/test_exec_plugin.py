"""Credentials from a real command."""

from __future__ import annotations

import asyncio
import json
import math
import stat
import time
from pathlib import Path

import pytest
from prometheus_client.registry import CollectorRegistry

from kubesched.api.time import format_time
from kubesched.foundation.client.exec_plugin import ExecPlugin, ExecSettings
from kubesched.foundation.client.transport import TransportError
from kubesched.foundation.metrics.client_metrics import ClientMetrics
from kubesched.foundation.util.clock import MINUTE, ManualClock
from tests.integration.certificates import Authority

VERSION = "client.authentication.k8s.io/v1"


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def printing(path: Path, answer: object) -> str:
    """A plugin that records each run and its input."""
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


def test_the_age_of_certificates_shows_in_the_metrics(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pairs = [[path.read_text() for path in authority.issue(name)] for name in ("one", "two")]
    answers = [credential(clientCertificateData=pem, clientKeyData=key) for pem, key in pairs]
    command = printing(tmp_path / "plugin", answers[0])
    registry = CollectorRegistry()
    metrics = ClientMetrics(registry)
    clock = ManualClock(now_ns=time.time_ns())
    exec_plugin = ExecPlugin(
        ExecSettings(command=command, api_version=VERSION), clock, metrics=metrics
    )

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"rest_client_exec_plugin_{name}", labels)

    assert value("ttl_seconds") == math.inf
    asyncio.run(exec_plugin.credential())
    ttl = value("ttl_seconds")
    assert ttl is not None
    assert 86_400 < ttl <= 2 * 86_400  # the authority gives two days
    clock.advance(60 * MINUTE)
    assert value("ttl_seconds") == pytest.approx(ttl - 3_600)
    printing(tmp_path / "plugin", answers[1])
    exec_plugin.forget()
    asyncio.run(exec_plugin.credential())
    assert value("certificate_rotation_age_count") == 1
    assert value("certificate_rotation_age_sum") == 3_600
    assert value("call_total", code="0", call_status="no_error") == 2


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
