"""The sources of trusted authorities, and their rotation.

docs/reference/02 §3.2, cases 30 and 31.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from kubesched.api import ConfigMap
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import SECOND, Clock, ManualClock, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import VirtualLoop
from kubesched.scheduler.server.access.client_authorities import ClientAuthorities
from kubesched.scheduler.server.access.client_certificates import RequestHeaderNames
from tests.scheduler.server.serving_harness import (
    AUTHENTICATION_MAP,
    Authority,
    authentication_map,
    options,
    refused,
)

OLD, NEW = Authority("old"), Authority("new")
FULL = authentication_map(
    client_ca_file=OLD.pem.decode(),
    requestheader_client_ca_file=NEW.pem.decode(),
    requestheader_username_headers='["X-Remote-User"]',
    requestheader_group_headers='["X-Remote-Group"]',
    requestheader_allowed_names="[]",
)


def virtual(main: Callable[[], Awaitable[None]]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(main())  # type: ignore[arg-type]
    finally:
        loop.close()


def server(clock: Clock, **faults: Exception) -> LocalApi:
    def before(verb: str, _kind: str, _namespace: str | None, _name: str) -> None:
        if verb in faults:
            raise faults[verb]

    return LocalApi(Store(random.Random(1), now_ns=clock.now_ns()), clock, faults=before)


def authorities(api: LocalApi | None, clock: Clock, *flags: str) -> ClientAuthorities:
    return ClientAuthorities(options(*flags).authentication, api, clock, random.Random(1))


def test_authorities_from_the_config_map_are_used_and_watched() -> None:
    async def main() -> None:
        clock = current_clock()
        api = server(clock)
        created = await api.create(FULL)
        found = authorities(api, clock)
        await found.look_up()
        assert found.client is not None
        assert found.client.pem == OLD.pem
        assert found.proxy is not None
        assert found.proxy_names == RequestHeaderNames(
            username=("X-Remote-User",), group=("X-Remote-Group",)
        )
        changes: list[bytes] = []
        found.on_change = lambda: changes.append(found.pem)
        async with running(found):
            data = {**created.data, "client-ca-file": NEW.pem.decode()}
            await clock.sleep(SECOND)
            changed = await api.update(replace(created, data=data))
            await clock.sleep(SECOND)
            assert found.client.pem == NEW.pem
            for broken in ("", "junk"):
                data = {**changed.data, "client-ca-file": broken}
                changed = await api.update(replace(changed, data=data))
                await clock.sleep(SECOND)
                assert found.client.pem == NEW.pem
            await api.delete(ConfigMap, AUTHENTICATION_MAP, "kube-system")
            await clock.sleep(SECOND)
            assert found.client.pem == NEW.pem
        assert changes == [NEW.pem + b"\n" + NEW.pem]

    virtual(main)


def test_a_missing_map_is_fine_and_may_come_later() -> None:
    async def main() -> None:
        clock = current_clock()
        api = server(clock)
        found = authorities(api, clock)
        await found.look_up()
        assert found.pem == b""
        async with running(found):
            await clock.sleep(SECOND)
            await api.create(FULL)
            await clock.sleep(SECOND)
            assert found.client is not None

    virtual(main)


def test_a_refused_look_up_is_tolerated_unless_it_must_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        clock = current_clock()
        api = server(clock, get=refused(403, "Forbidden"))
        with caplog.at_level(logging.WARNING):
            found = authorities(api, clock)
            await found.look_up()
        assert "extension-apiserver-authentication-reader" in caplog.text
        assert "Continuing without authentication configuration." in caplog.text
        async with running(found):
            await api.create(FULL)
            await clock.sleep(SECOND)
        assert found.client is not None
        assert found.proxy is None
        strict = authorities(api, clock, "--authentication-tolerate-lookup-failure=false")
        with pytest.raises(ConfigError, match="refused"):
            await strict.look_up()

    virtual(main)


def test_flags_win_over_what_is_published(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(NEW.pem)

    async def main() -> None:
        clock = current_clock()
        api = server(clock)
        await api.create(FULL)
        found = authorities(api, clock, f"--client-ca-file={file}")
        await found.look_up()
        assert found.client is not None
        assert found.client.pem == NEW.pem
        assert found.proxy is not None
        skipping = authorities(api, clock, "--authentication-skip-lookup")
        await skipping.look_up()
        assert skipping.pem == b""
        headers = authorities(
            None,
            clock,
            f"--requestheader-client-ca-file={file}",
            "--requestheader-username-headers=X-User",
        )
        assert headers.proxy_names.username == ("X-User",)
        assert headers.proxy_names.extra_prefix == ("x-remote-extra-",)

    virtual(main)


def test_files_are_reread_and_invalid_ones_are_not_used(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(OLD.pem)

    async def main() -> None:
        clock = current_clock()
        found = authorities(None, clock, f"--client-ca-file={file}")
        async with running(found):
            for content, expected in (
                (b"junk", OLD.pem),
                (b"", OLD.pem),
                (NEW.pem + OLD.pem, NEW.pem + OLD.pem),
            ):
                file.write_bytes(content)
                await clock.sleep(2 * SECOND)
                assert found.pem == expected
            file.unlink()
            await clock.sleep(2 * SECOND)
            assert found.pem == NEW.pem + OLD.pem

    virtual(main)


def test_a_file_that_cannot_be_used_at_the_start_is_an_error(tmp_path: Path) -> None:
    clock = ManualClock()
    junk = tmp_path / "junk"
    junk.write_bytes(b"junk")
    for path in (junk, tmp_path / "absent"):
        with pytest.raises(ConfigError, match="unable to load client-ca-file"):
            authorities(None, clock, f"--client-ca-file={path}")


def test_without_a_cluster_and_files_there_are_warnings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        authorities(None, ManualClock())
    assert len(caplog.messages) == 2
    assert caplog.messages[0] == (
        "No authentication-kubeconfig provided in order to lookup client-ca-file in "
        "configmap/extension-apiserver-authentication in kube-system, "
        "so client certificate authentication won't work."
    )
