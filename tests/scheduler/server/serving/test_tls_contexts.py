"""Certificates and TLS settings (docs/reference/02 §2)."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubesched.errors import ConfigError
from kubesched.foundation.http.self_signed import self_signed_certificate
from kubesched.foundation.util.clock import MINUTE, SECOND, ManualClock
from kubesched.foundation.util.watched_file import WatchedFile
from kubesched.scheduler.server.options.tls_names import CIPHER_SUITES, INSECURE_CIPHER_SUITES
from kubesched.scheduler.server.serving.tls_contexts import (
    TlsContexts,
    openssl_ciphers,
    serving_names,
)
from tests.scheduler.server.serving_harness import Authority, options

NOW_NS = 1_800_000_000 * SECOND


def contexts(*flags: str) -> TlsContexts:
    return TlsContexts(options(*flags).secure_serving, ManualClock(NOW_NS))


def test_a_self_signed_certificate_is_for_this_host_and_year() -> None:
    pair = self_signed_certificate(serving_names("10.0.0.7"), NOW_NS)
    leaf, authority = x509.load_pem_x509_certificates(pair.certificates)
    leaf.verify_directly_issued_by(authority)
    [name] = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "localhost@1800000000"
    [name] = authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "localhost-ca@1800000000"
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("10.0.0.7"),
        ipaddress.ip_address("127.0.0.1"),
    ]
    usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH]
    now = datetime.datetime.fromtimestamp(NOW_NS / SECOND, datetime.UTC)
    assert leaf.not_valid_before_utc == now - datetime.timedelta(hours=1)
    assert leaf.not_valid_after_utc == now + datetime.timedelta(days=365)


def test_a_generated_certificate_is_stored_in_the_directory_and_reused(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    contexts(f"--cert-dir={folder}")
    made = (folder / "kube-scheduler.crt").read_bytes()
    assert stat.S_IMODE((folder / "kube-scheduler.key").stat().st_mode) == 0o600
    contexts(f"--cert-dir={folder}")
    assert (folder / "kube-scheduler.crt").read_bytes() == made


@pytest.mark.parametrize("present", ["crt", "key"])
def test_half_a_pair_is_an_error(present: str, tmp_path: Path) -> None:
    (tmp_path / f"kube-scheduler.{present}").touch()
    with pytest.raises(ConfigError, match="but not"):
        contexts(f"--cert-dir={tmp_path}")


def test_a_pair_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    authority = Authority()
    cert, key = tmp_path / "crt", tmp_path / "key"
    cert.write_bytes(authority.issue("a", server=True).certificate)
    key.write_bytes(authority.issue("b", server=True).key)
    with pytest.raises(ConfigError, match="unable to load server certificate"):
        contexts(f"--tls-cert-file={cert}", f"--tls-private-key-file={key}")
    with pytest.raises(ConfigError, match="unable to load server certificate"):
        contexts(f"--tls-cert-file={cert}", f"--tls-private-key-file={tmp_path / 'absent'}")


def test_files_are_reread_within_a_minute_even_if_their_metadata_is_unchanged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    file = WatchedFile(str(path))
    file.read(0)
    path.write_bytes(b"two")
    file._seen = file._stat()
    assert not file.changed(MINUTE - 1)
    assert file.changed(MINUTE)
    assert file.content == b"two"


def test_names_choose_certificates(tmp_path: Path) -> None:
    authority = Authority()
    for name in ("exact.example", "*.wild.example"):
        credentials = authority.issue(name, server=True, dns_name=name)
        stem = name.replace("*", "star")
        (tmp_path / f"{stem}.crt").write_bytes(credentials.certificate)
        (tmp_path / f"{stem}.key").write_bytes(credentials.key)
    found = contexts(
        *(
            f"--tls-sni-cert-key={tmp_path / stem}.crt,{tmp_path / stem}.key"
            for stem in ("exact.example", "star.wild.example")
        )
    )
    exact = found._context_for("EXACT.example.")
    wild = found._context_for("a.wild.example")
    default = found._context_for("other.example")
    assert len({id(exact), id(wild), id(default)}) == 3
    assert found._context_for("b.a.wild.example") is default
    assert found._context_for(None) is default


def test_every_good_cipher_suite_has_an_openssl_name() -> None:
    for name in CIPHER_SUITES - {each for each in CIPHER_SUITES if "_WITH_" not in each}:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers(openssl_ciphers([name]))
        below_13 = [each for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
        assert len(below_13) == 1, name


def test_insecure_suites_are_spelled_as_openssl_does() -> None:
    spelled = {name: openssl_ciphers([name]) for name in INSECURE_CIPHER_SUITES}
    assert spelled["TLS_RSA_WITH_3DES_EDE_CBC_SHA"] == "DES-CBC3-SHA"
    assert spelled["TLS_ECDHE_RSA_WITH_RC4_128_SHA"] == "ECDHE-RSA-RC4-SHA"
    assert spelled["TLS_RSA_WITH_AES_128_GCM_SHA256"] == "AES128-GCM-SHA256"
    assert spelled["TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"] == "ECDHE-ECDSA-AES128-SHA256"


def test_the_default_minimum_version_is_tls_12() -> None:
    assert contexts().listening.minimum_version == ssl.TLSVersion.TLSv1_2
    strict = contexts("--tls-min-version=VersionTLS13")
    assert strict.listening.minimum_version == ssl.TLSVersion.TLSv1_3


def test_certificates_are_requested_only_if_an_authority_is_configured() -> None:
    found = contexts()
    assert found.listening.verify_mode == ssl.CERT_NONE
    found.trust(Authority().pem)
    assert found.listening.verify_mode == ssl.CERT_OPTIONAL
    assert found._context_for(None).verify_mode == ssl.CERT_OPTIONAL
