"""Authorities and key pairs that change under a running client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kubesched.errors import ConfigError
from kubesched.foundation.client.credentials import FileText
from kubesched.foundation.client.tls import KeyPair, TlsOptions
from kubesched.foundation.client.tls_rotation import RotatingContext
from kubesched.foundation.util.clock import SECOND, ManualClock
from tests.integration.certificates import Authority


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    folder = tmp_path_factory.mktemp("pki")
    first, second = (Authority(folder, name).certificate.read_bytes() for name in ("a", "b"))
    return first, second


RELOADS: dict[str, tuple[Callable[[Path, bytes], object], tuple[str, str], bool]] = {
    "a file that stays": (lambda path, _: None, ("success", "unchanged"), False),
    "a file that changes": (lambda path, new: path.write_bytes(new), ("success", "updated"), True),
    "a file that is gone": (lambda path, _: path.unlink(), ("failure", "read_error"), False),
    "a file that is empty": (lambda path, _: path.write_bytes(b""), ("failure", "empty"), False),
    "a file of something else": (
        lambda path, _: path.write_bytes(b"nonsense"),
        ("failure", "ca_parse_error"),
        False,
    ),
}


@pytest.mark.parametrize(("change", "counted", "is_new"), RELOADS.values(), ids=RELOADS)
def test_authorities_are_reread_periodically(
    change: Callable[[Path, bytes], object],
    counted: tuple[str, str],
    is_new: bool,
    authorities: tuple[bytes, bytes],
    tmp_path: Path,
) -> None:
    clock, path = ManualClock(), tmp_path / "ca.crt"
    path.write_bytes(authorities[0])
    reloads: list[tuple[str, str]] = []
    rotating = RotatingContext(
        TlsOptions(), FileText(path, clock), lambda result, reason: reloads.append((result, reason))
    )
    first = rotating.current(None)
    assert rotating.current(None) is first
    change(path, authorities[1])
    assert rotating.current(None) is first
    assert reloads == []
    clock.advance(11 * SECOND)
    later = rotating.current(None)
    assert reloads == [counted]
    assert (later is not first) == is_new
    # Only the authorities in the file are trusted, whatever its content is.
    assert len(later.get_ca_certs()) == 1


def test_an_invalid_key_pair_does_not_replace_a_valid_one(
    authorities: tuple[bytes, bytes], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    certificate, key = (path.read_bytes() for path in authority.issue("client"))
    rotating = RotatingContext(TlsOptions(authorities[0]), None)
    good = rotating.current(KeyPair(certificate, key))
    assert rotating.current(KeyPair(certificate, b"nonsense")) is good
    assert rotating.current(KeyPair(certificate, key)) is good
    with pytest.raises(ConfigError, match="not a usable pair"):
        RotatingContext(TlsOptions(), None).current(KeyPair(certificate, b"nonsense"))
