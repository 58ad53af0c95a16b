"""The kubeconfig for clients of an embedded cluster."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

__all__ = ["kubeconfig", "write_private"]

_NAME = "kubesched"


def kubeconfig(url: str, *, token: str = "", authority: bytes = b"") -> str:
    """Return the text of a kubeconfig. `authority` is the certificate to trust, in PEM."""
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
    """Write a file that only its owner can read, because it holds a token.

    The text goes to a temporary file, which then replaces the path. This replaces a symbolic
    link at the path instead of following it. If the path is not a regular file, such as
    /dev/stdout, the text is written to it directly.
    """
    if path.exists() and not path.is_file():
        path.write_text(text)
        return
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
