"""The published message definitions: number, name, form and type of each field.

The form of a field is one value, `list`, `map` or `inline` (the fields of an embedded message).
The form `kept` is a value whose zero must be decoded, because absent and zero differ or because
the JSON form always has the field. The definitions are loaded at the first protobuf request.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec

__all__ = ["CRD", "DELETE_OPTIONS", "MAGIC", "META", "PROTOBUF", "Field", "messages"]

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
DELETE_OPTIONS = META + "DeleteOptions"
CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

# Name, form and type: `s`, `y`, `i`, `b`, `d` (string, bytes, integer, boolean, double) or the
# name of a message.
Field = tuple[str, str, str]


@cache
def messages() -> Mapping[str, Mapping[str, Field]]:
    """Return the fields of each message, by its name and by the number of the field."""
    data = (
        resources.files("kubesched.cluster.apiserver.http.protobuf") / "messages.json.gz"
    ).read_bytes()
    return msgspec.json.decode(gzip.decompress(data), type=dict[str, dict[str, Field]])
