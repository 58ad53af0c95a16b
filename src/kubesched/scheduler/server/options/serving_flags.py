"""Flags of the scheduler's own HTTPS endpoint: serving and access control.

docs/reference/02 §2.1.
"""

from __future__ import annotations

from typing import Final

from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.flag_parsing import Flag, FlagGroup
from kubesched.foundation.util.flag_values import (
    BOOL,
    DURATION,
    INT,
    INT32_LIST,
    IP,
    STRING,
    STRING_LIST,
)
from kubesched.scheduler.server.options.flag_kinds import CERTIFICATES
from kubesched.scheduler.server.options.tls_names import (
    CIPHER_SUITES,
    INSECURE_CIPHER_SUITES,
    TLS_VERSIONS,
)

__all__ = ["AUTHENTICATION", "AUTHORIZATION", "DEFAULT_PORT", "SECURE_SERVING"]

DEFAULT_PORT: Final = 10259
_CACHE_TTL_NS: Final = 10 * SECOND

SECURE_SERVING: Final = FlagGroup(
    "secure serving",
    (
        Flag(
            "bind-address",
            IP,
            "0.0.0.0",
            "Address to listen on; 0.0.0.0 and :: mean every interface, of both IP families.",
        ),
        Flag(
            "secure-port",
            INT,
            DEFAULT_PORT,
            "Port to serve HTTPS on, with authentication and authorization; 0: serve nothing.",
        ),
        Flag("disable-http2-serving", BOOL, False, "Offer HTTP/1.1 only."),
        Flag(
            "cert-dir",
            STRING,
            "",
            "Directory of kube-scheduler.crt and kube-scheduler.key, which are generated if "
            "missing. Without it and --tls-cert-file, a certificate is generated in memory.",
        ),
        Flag(
            "tls-cert-file",
            STRING,
            "",
            "Certificate to serve with, followed by those of its authorities. "
            "Wins over --cert-dir.",
        ),
        Flag("tls-private-key-file", STRING, "", "Private key of --tls-cert-file."),
        Flag(
            "tls-cipher-suites",
            STRING_LIST,
            (),
            "Cipher suites to allow; by default those the TLS library allows. "
            f"Good: {', '.join(sorted(CIPHER_SUITES))}. "
            f"Insecure: {', '.join(sorted(INSECURE_CIPHER_SUITES))}.",
        ),
        Flag(
            "tls-curve-preferences",
            INT32_LIST,
            (),
            "Key exchanges to offer, by their registered numbers, the preferred first.",
        ),
        Flag(
            "tls-min-version",
            STRING,
            "",
            f"Oldest TLS version to speak, TLS 1.2 by default: {', '.join(TLS_VERSIONS)}.",
        ),
        Flag(
            "tls-sni-cert-key",
            CERTIFICATES,
            (),
            "Another certificate and its key, and the host names to use it for: "
            "web.crt,web.key:*.example.com,example.com. Without names, those in the certificate. "
            "May be repeated.",
        ),
        Flag(
            "http2-max-streams-per-connection",
            INT,
            0,
            "Streams that one HTTP/2 connection may have; 0: the library's default.",
        ),
        Flag(
            "permit-port-sharing",
            BOOL,
            False,
            "Let several processes listen on the same port (SO_REUSEPORT).",
        ),
        Flag(
            "permit-address-sharing",
            BOOL,
            False,
            "Listen even if old connections of the address are not gone yet (SO_REUSEADDR).",
        ),
    ),
)

AUTHENTICATION: Final = FlagGroup(
    "authentication",
    (
        Flag(
            "authentication-kubeconfig",
            STRING,
            "",
            "kubeconfig of the cluster that reviews tokens and has the client authorities. "
            "Without it, and outside a cluster, every request is anonymous.",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            DURATION,
            _CACHE_TTL_NS,
            "How long the answer to a token is remembered.",
        ),
        Flag(
            "authentication-skip-lookup",
            BOOL,
            False,
            "Do not look up missing authentication settings in the cluster.",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            BOOL,
            True,
            "Continue if that look-up fails. Requests may then count as anonymous.",
        ),
        Flag(
            "client-ca-file",
            STRING,
            "",
            "Authorities whose client certificates identify their owner by common name. "
            "Without it, those that the cluster publishes.",
        ),
        Flag(
            "requestheader-client-ca-file",
            STRING,
            "",
            "Authorities of proxies that may name the user of a request in headers.",
        ),
        Flag(
            "requestheader-allowed-names",
            STRING_LIST,
            (),
            "Common names of those proxies; empty: any.",
        ),
        Flag(
            "requestheader-username-headers",
            STRING_LIST,
            ("x-remote-user",),
            "Headers in which a proxy gives the user's name.",
        ),
        Flag(
            "requestheader-uid-headers",
            STRING_LIST,
            (),
            "Headers in which a proxy gives the user's UID; X-Remote-Uid must be one of them.",
        ),
        Flag(
            "requestheader-group-headers",
            STRING_LIST,
            ("x-remote-group",),
            "Headers in which a proxy gives the user's groups.",
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            STRING_LIST,
            ("x-remote-extra-",),
            "Prefixes of headers with further information about the user.",
        ),
    ),
)

AUTHORIZATION: Final = FlagGroup(
    "authorization",
    (
        Flag(
            "authorization-kubeconfig",
            STRING,
            "",
            "kubeconfig of the cluster that authorizes requests. "
            "Without it, and outside a cluster, only --authorization-always-allow-paths are open.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            DURATION,
            _CACHE_TTL_NS,
            "How long a permission is remembered.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION,
            _CACHE_TTL_NS,
            "How long a refusal is remembered.",
        ),
        Flag(
            "authorization-always-allow-paths",
            STRING_LIST,
            ("/healthz", "/readyz", "/livez"),
            "Paths that need no authorization; a * at the end matches any suffix.",
        ),
    ),
)
