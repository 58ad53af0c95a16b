"""Validation of certificate signing requests: signers, usages, conditions, certificates."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubesched.cluster.apiserver.rules.validation.names import dns_label, dns_subdomain
from kubesched.foundation.util.go_format import quote

__all__ = [
    "APPROVED",
    "DENIED",
    "FAILED",
    "check_certificate",
    "check_condition_changes",
    "check_conditions",
    "check_request",
    "check_signer_name",
    "organizations",
]

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_SHORTEST_SECONDS: Final = 600
_DOMAIN_LENGTH, _PATH_LENGTH = 253, 253 + 63 + 1
_STATUSES: Final = ("False", "True", "Unknown")
_USAGES: Final = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)

Json = Mapping[str, Any]


def organizations(request: object) -> tuple[str, ...]:
    """Return the groups that an encoded request names. Raises ValueError."""
    # Imported here: most clusters have no certificate requests, and the import takes long.
    from kubesched.foundation.http.client_authority import read_request, request_subject

    return request_subject(read_request(_decoded(request))).organizations


def check_request(spec: Json) -> Iterator[FieldProblem]:
    """Yield the problems of the spec of a new request."""
    try:
        organizations(spec.get("request"))
    except ValueError as error:
        yield invalid("spec.request", spec.get("request") or "", str(error))
    usages = spec.get("usages") or ()
    if not usages:
        yield required("spec.usages")
    for number, usage in enumerate(usages):
        if usage not in _USAGES:
            yield not_supported(f"spec.usages[{number}]", usage, _USAGES)
    for number, usage in enumerate(usages):
        if usage in usages[:number]:
            yield duplicate(f"spec.usages[{number}]", usage)
    signer = spec.get("signerName") or ""
    if signer == _LEGACY:
        text = "the legacy signerName is not allowed via this API version"
        yield invalid("spec.signerName", signer, text)
    else:
        yield from check_signer_name("spec.signerName", signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST_SECONDS:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", seconds, text)


def check_signer_name(path: str, name: str) -> Iterator[FieldProblem]:
    """Yield the problems of the name of a signer, `DOMAIN/PATH`."""
    if not name:
        yield required(path)
        return
    segments = name.split("/")
    if len(segments) != 2:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(path, name, text)
        return
    domain, tail = segments
    if len(domain) > _DOMAIN_LENGTH:
        yield too_long(path, _DOMAIN_LENGTH)
    labels = domain.split(".")
    yield from _label_problems(path, domain, labels, dns_label)
    if len(labels) < 2:
        text = "should be a domain with at least two segments separated by dots"
        yield invalid(path, domain, text)
    yield from _label_problems(path, tail, tail.split("."), dns_subdomain)
    if len(name) > _DOMAIN_LENGTH + _PATH_LENGTH + 1:
        yield too_long(path, _DOMAIN_LENGTH + _PATH_LENGTH + 1)


def _label_problems(
    path: str, shown: str, labels: Sequence[str], rule: Any
) -> Iterator[FieldProblem]:
    """Yield the problems of the first invalid label."""
    for label in labels:
        if texts := rule(label):
            for text in texts:
                yield invalid(path, shown, f"validating label {quote(label)}: {text}")
            return


def check_conditions(conditions: Sequence[Json], old: Sequence[Json]) -> Iterator[FieldProblem]:
    """Yield the problems of conditions. Those that the stored conditions have are tolerated."""
    path, types = "status.conditions", [each.get("type") or "" for each in conditions]
    old_types = [each.get("type") or "" for each in old]
    allows_both = {APPROVED, DENIED} <= set(old_types)
    allows_duplicates = len(old_types) > len(set(old_types))
    for number, condition in enumerate(conditions):
        kind, status = types[number], condition.get("status") or ""
        if not kind and "" not in old_types:
            yield required(f"{path}[{number}].type")
        allowed = ("True",) if kind in (APPROVED, DENIED, FAILED) else _STATUSES
        if not status:
            yield required(f"{path}[{number}].status")
        elif status not in allowed:
            yield not_supported(f"{path}[{number}].status", status, allowed)
        opposite = {APPROVED: DENIED, DENIED: APPROVED}.get(kind)
        if opposite in types[:number] and not allows_both:
            text = "Approved and Denied conditions are mutually exclusive"
            yield invalid(f"{path}[{number}].type", kind, text)
        if kind in types[:number] and not allows_duplicates:
            yield duplicate(f"{path}[{number}].type", kind)


def check_condition_changes(
    new: Sequence[Json], old: Sequence[Json], *, approves: bool
) -> Iterator[FieldProblem]:
    """Yield the problems of a change. `approves` says that conditions of approval may be added."""
    path = "status.conditions"
    for kind in (APPROVED, DENIED, FAILED):
        if len(_of_type(new, kind)) < len(_of_type(old, kind)):
            yield forbidden(path, f"updates may not remove a condition of type {quote(kind)}")
    for kind in () if approves else (APPROVED, DENIED):
        if len(_of_type(new, kind)) > len(_of_type(old, kind)):
            yield forbidden(path, f"updates may not add a condition of type {quote(kind)}")


def _of_type(conditions: Sequence[Json], kind: str) -> list[Json]:
    return [each for each in conditions if each.get("type") == kind]


def check_certificate(encoded: object) -> Iterator[FieldProblem]:
    """Yield the problem of an issued certificate."""
    if not encoded:
        return
    from kubesched.foundation.http.client_authority import check_certificates

    try:
        check_certificates(_decoded(encoded))
    except ValueError as error:
        yield invalid("status.certificate", "<certificate data>", str(error))


def _decoded(encoded: object) -> bytes:
    try:
        return base64.b64decode(str(encoded or ""), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
