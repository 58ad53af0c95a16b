"""The file that tells clients where a cluster is and how to be let in."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml

__all__ = ["kubeconfig", "write_private"]

_NAME = "kubesched"


def kubeconfig(url: str, *, token: str = "", authority: bytes = b"") -> str:
    """The text of a kubeconfig. `authority` is the certificate to trust, in PEM."""
    cluster: dict[str, Any] = {"server": url}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token} if token else {}}],
        "contexts": [
            {"name": _NAME, "context": {"cluster": _NAME, "user": "admin", "namespace": "default"}}
        ],
        "current-context": _NAME,
    }
    return yaml.safe_dump(document, sort_keys=False)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read: it holds a token."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
