"""Validation of the data of secrets and config maps."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    invalid,
    required,
    too_long,
)

__all__ = ["check_config_map_data", "check_secret_data"]

Json = dict[str, Any]

_LARGEST = 1024 * 1024
_ACCOUNT = "kubernetes.io/service-account.name"
# The keys that a secret of a type needs.
_NEEDED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_BASIC = ("username", "password")


def check_secret_data(secret: Json) -> Iterator[FieldProblem]:
    """Iterate over the problems of a secret's data, by its type."""
    data, kind = secret.get("data") or {}, secret.get("type")
    if sum(map(_size, data.values())) > _LARGEST:
        yield too_long("data", _LARGEST)
    for key in _NEEDED.get(str(kind), ()):
        if key not in data:
            yield required(f"data[{key}]")
    if kind == "kubernetes.io/basic-auth" and not any(key in data for key in _BASIC):
        yield from (required(f"data[{key}]") for key in _BASIC)
    if kind == "kubernetes.io/service-account-token":
        notes = secret["metadata"].get("annotations") or {}
        if not notes.get(_ACCOUNT):
            yield required(f"metadata.annotations[{_ACCOUNT}]")


def _size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return len(text)


def check_config_map_data(config_map: Json) -> Iterator[FieldProblem]:
    """Iterate over the problems of a config map's data as a whole."""
    texts, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    for key in texts:
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    size = sum(len(each.encode()) for each in texts.values()) + sum(map(_size, binary.values()))
    if size > _LARGEST:
        yield too_long("[]", _LARGEST)
