"""Commands with `--scheduler`, on a scheduler whose certificate is self-signed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from kubesched.testing import Cluster


async def explain(url: str, kubeconfig: Path, *flags: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubesched.cli.main", "explain", "pod", "p"),
        *("--scheduler", url, "--kubeconfig", str(kubeconfig), *flags),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, error.decode()


@pytest.fixture
def other_authority(tmp_path: Path) -> Path:
    from kubesched.foundation.http.self_signed import self_signed_certificate

    file = tmp_path / "ca.crt"
    file.write_bytes(self_signed_certificate(["other"], 10**18, key_type="ec").authority)
    return file


def test_an_unknown_certificate_is_refused_with_the_flags_that_help(other_authority: Path) -> None:
    async def main() -> None:
        async with Cluster(nodes=1, scheduler_flags=["--leader-elect=false"]) as cluster:
            await cluster.command.wait_until_ready()
            url, kubeconfig = cluster.command.url, cluster.kubeconfig_path
            for flags in ((), ("--scheduler-ca", str(other_authority))):
                code, said = await explain(url, kubeconfig, *flags)
                assert code != 0
                assert "certificate" in said.splitlines()[0]
                assert "--scheduler-ca FILE" in said
                assert "--scheduler-insecure" in said
            # Without verification the scheduler answers; there is no such pod.
            code, said = await explain(url, kubeconfig, "--scheduler-insecure")
            assert code != 0
            assert "certificate" not in said

    asyncio.run(main())
