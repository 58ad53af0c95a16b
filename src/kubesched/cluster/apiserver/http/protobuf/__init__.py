"""Kubernetes' protobuf encoding, for clients that need it.

Typed Go clients such as kubectl send objects in this encoding, and some accept nothing else. Older
clients read the OpenAPI document in it.
"""

from __future__ import annotations

from kubesched.cluster.apiserver.http.protobuf.message_definitions import PROTOBUF
from kubesched.cluster.apiserver.http.protobuf.openapi_v2 import openapi_v2
from kubesched.cluster.apiserver.http.protobuf.protobuf_reader import read_protobuf
from kubesched.cluster.apiserver.http.protobuf.protobuf_writer import (
    UnwritableError,
    watch_frame,
    write_protobuf,
)

__all__ = [
    "PROTOBUF",
    "UnwritableError",
    "openapi_v2",
    "read_protobuf",
    "watch_frame",
    "write_protobuf",
]
