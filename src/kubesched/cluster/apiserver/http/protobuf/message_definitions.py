"""The published messages: which number, name and type each field of an object has.

A field is one value, a list, a map or the fields of an embedded message (`inline`). A value
whose zero says something, because the field may be left out or is always shown, is `kept`.
Read when somebody first sends or wants a binary body.
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

# Name, form, and type: a letter (text, bytes, integer, boolean, double) or a message.
Field = tuple[str, str, str]


@cache
def messages() -> Mapping[str, Mapping[str, Field]]:
    """By the name of a message: number to name, form and type of a field."""
    data = (
        resources.files("kubesched.cluster.apiserver.http.protobuf") / "messages.json.gz"
    ).read_bytes()
    return msgspec.json.decode(gzip.decompress(data), type=dict[str, dict[str, Field]])
